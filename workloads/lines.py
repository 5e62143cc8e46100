"""Text files in blocks of whole lines, plain or compressed with gzip (`.gz`)."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from workloads.errors import WorkloadError
from workloads.progress import progress

BLOCK_BYTES = 1 << 22
"""Bytes of text converted at once."""
MAX_LINE_BYTES = 1 << 24


def line_blocks(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Return the text of `path`, a `what`, in blocks of whole lines.

    Each block comes with the number of its first line and ends with a line feed, which is added
    where the file ends without. Raises `WorkloadError` for a file that cannot be read or
    decompressed, and for a line longer than `MAX_LINE_BYTES`.
    """
    try:
        with path.open("rb") as file, progress(f"reading {path.name}", path.stat().st_size) as step:
            text = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            number, rest, at = 1, b"", 0
            while read := text.read(BLOCK_BYTES):
                block, newline, rest = (rest + read).rpartition(b"\n")
                step(file.tell() - at)
                at = file.tell()
                if newline:
                    yield number, block + newline
                    number += block.count(b"\n") + 1
                if len(rest) > MAX_LINE_BYTES:
                    raise WorkloadError(
                        f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes"
                    )
            if rest:
                yield number, rest + b"\n"
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(f"cannot read {what} {path}: {reason}") from error


def identity(path: Path, what: str) -> str:
    """Return a name for the content of `path`, a `what`, by its place, size and time of change.

    `WorkloadError` if it is no regular file that is there.
    """
    try:
        resolved = path.resolve(strict=True)
        stat = resolved.stat()
    except OSError as error:
        raise WorkloadError(f"cannot read {what} {path}: {error.strerror}") from error
    if not resolved.is_file():
        raise WorkloadError(f"cannot read {what} {path}: not a regular file")
    text = f"{resolved}\0{stat.st_size}\0{stat.st_mtime_ns}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]


def quote(token: bytes) -> str:
    """Show a piece of a file in an error: printable, and not too long."""
    shown = token[:40].decode("utf-8", errors="backslashreplace")
    return repr(shown + ("…" if len(token) > 40 else ""))
