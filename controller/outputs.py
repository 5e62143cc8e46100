"""Where commands write: looked at before work begins that would be lost."""

from __future__ import annotations

import os
from pathlib import Path

from host_stack.errors import BadInput


def check_file(option: str, path: Path | None) -> None:
    """Raise `BadInput` unless `path` is a file that can be written, in a folder that exists."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{option} {path}: it must be a file in a folder that exists")
    _check_writable(option, path, path if path.exists() else path.parent)


def check_new_file(option: str, path: Path) -> None:
    """Raise `BadInput` unless `path` is a file that can be written; its folder may be made."""
    if path.is_dir():
        raise BadInput(f"{option} {path}: it is a folder; name a file")
    _check_folder(option, path, path.parent)
    if path.exists():
        _check_writable(option, path, path)


def check_folder(option: str, path: Path | None) -> None:
    """Raise `BadInput` unless `path` is a folder that can be written to, or can be made."""
    if path is not None:
        _check_folder(option, path, path)


def _check_folder(option: str, path: Path, there: Path) -> None:
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise BadInput(f"{option} {path}: {there} is not a folder")
    _check_writable(option, path, there)


def _check_writable(option: str, path: Path, there: Path) -> None:
    if not os.access(there, os.W_OK | (os.X_OK if there.is_dir() else 0)):
        raise BadInput(f"{option} {path}: {there} may not be written to by you")
