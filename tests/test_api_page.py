"""The page of the Python API is that of the docstrings."""

from __future__ import annotations

import ast
import builtins
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import host_stack.kv

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = {
    *("Any", "Callable", "Final", "Iterable", "Iterator", "Mapping", "Protocol", "Self"),
    *("Sequence", "Path", "IntEnum", "field", "frozenset"),
    *("np", "NDArray", "DTypeLike", "nn", "torch", "zmq"),
}
"""Names of the standard library, numpy, PyTorch and pyzmq that signatures use."""


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """The program that makes the page."""
    spec = importlib.util.spec_from_file_location("api_page", ROOT / "setup" / "api_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_up_to_date(maker: ModuleType) -> None:
    """`make api` would change nothing; every public name of the key-value store is on it."""
    text = (ROOT / "docs" / "api.md").read_text()
    assert maker.page() == text, "run `make api`"
    classes = [name for name in host_stack.kv.__all__ if not name.isupper()]
    assert all(f"class `{name}`" in text for name in classes)
    assert "push(keys: KeyArray, vals: Array" in text


def test_every_type_of_a_signature_is_explained(maker: ModuleType) -> None:
    """What arguments and results are is on the page too, or is said to be no promise."""
    public = [node for module in maker.PUBLIC for node, _ in maker.definitions(module)]
    shown = [*public, *(node for node, _ in maker.named())]
    known = {_name(node) for node in shown} | {*maker.INTERNAL} | FOREIGN | {*dir(builtins)}
    lacking = {name for node in public for name in _types(node, maker)} - known
    assert not lacking


def test_every_type_that_is_named_has_a_text(maker: ModuleType) -> None:
    """A type is no better known by its definition alone."""
    assert [_name(node) for node, text in maker.named() if not text] == []


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]  # type: ignore[attr-defined]
    return ast.unparse(target)


def _types(node: ast.stmt, maker: ModuleType) -> Iterator[str]:
    """The names in annotations of a function, or of a class's fields and public methods."""
    if isinstance(node, ast.FunctionDef):
        arguments = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        annotations = [node.returns, *(argument.annotation for argument in arguments)]
        for annotation in annotations:
            yield from _names(annotation)
    elif isinstance(node, ast.ClassDef):
        for member in node.body:
            if isinstance(member, ast.AnnAssign) and maker.is_shown(member):
                yield from _names(member.annotation)
            elif isinstance(member, ast.FunctionDef) and _is_shown(member):
                yield from _types(member, maker)


def _is_shown(member: ast.FunctionDef) -> bool:
    """Whether the page shows it."""
    return member.name == "__init__" or not member.name.startswith("_")


def _names(annotation: ast.expr | None) -> Iterator[str]:
    for node in ast.walk(annotation or ast.Pass()):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _names(ast.parse(node.value, mode="eval").body)
