"""Where commands may write, known before they begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.outputs import check_file, check_folder, check_new_file
from host_stack.errors import BadInput


def test_what_can_be_written(tmp_path: Path) -> None:
    """Files in folders that exist, files in folders that can be made, folders; nothing is made."""
    check_file("--json", None)
    check_file("--json", tmp_path / "a.json")
    check_new_file("--out", tmp_path / "new" / "a.npz")
    check_folder("--out", tmp_path / "new" / "newer")
    check_new_file("--out", Path("a.npz"))
    assert not list(tmp_path.iterdir())


def test_what_cannot(tmp_path: Path) -> None:
    """Folders where files should be, and the other way round."""
    file = tmp_path / "file"
    file.touch()
    for check, path in (
        (check_file, tmp_path),
        (check_file, tmp_path / "new" / "a.json"),
        (check_new_file, tmp_path),
        (check_new_file, file / "a.npz"),
        (check_folder, file),
        (check_folder, file / "new"),
    ):
        with pytest.raises(BadInput, match=f"--x {path}: "):
            check("--x", path)


def test_where_nothing_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder, or the file, that may not be written to is named."""
    file = tmp_path / "file"
    file.touch()
    asked = []

    def nothing_is_allowed(path: Path, _mode: int) -> bool:
        asked.append(path)
        return False

    monkeypatch.setattr(os, "access", nothing_is_allowed)
    for check, path, there in (
        (check_file, file, file),
        (check_file, tmp_path / "a.json", tmp_path),
        (check_new_file, tmp_path / "new" / "a.npz", tmp_path),
        (check_folder, tmp_path / "new", tmp_path),
    ):
        with pytest.raises(BadInput, match=f"--x {path}: .*{there} may not be written to by you"):
            check("--x", path)
        assert asked.pop() == there
