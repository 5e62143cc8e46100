"""Folders that hold what a switch trusts: compiled code, its control socket."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(directory: Path) -> bool:
    """Create a folder unless it exists; return whether this user alone can change it.

    Raises OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = directory.stat()
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
