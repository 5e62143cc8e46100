"""The page of the Python API is that of the docstrings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import host_stack.kv

ROOT = Path(__file__).resolve().parents[1]


def test_page_is_up_to_date() -> None:
    """`make api` would change nothing; every public name of the key-value store is on it."""
    spec = importlib.util.spec_from_file_location("api_page", ROOT / "setup" / "api_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "api.md").read_text()
    assert module.page() == text, "run `make api`"
    classes = [name for name in host_stack.kv.__all__ if not name.isupper()]
    assert all(f"class `{name}`" in text for name in classes)
    assert "push(keys: KeyArray, vals: Array" in text
