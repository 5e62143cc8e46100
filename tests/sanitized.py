"""Runs pytest with generated switches compiled with sanitizers: `python -m tests.sanitized …`.

Starts itself again with the run-time library of the address sanitizer loaded; the environment of
what it starts in turn, compilers above all, is the usual one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch import dataplane
from softswitch.compiler import find_compiler
from softswitch.program import Program
from softswitch.programs import compile_program

OPTIONS = "abort_on_error=1:allocator_may_return_null=1:detect_leaks={leaks}:log_path={log}"


def sanitizer_library() -> Path | None:
    """The run-time library of the compiler's address sanitizer."""
    found = subprocess.run(
        [*find_compiler().command, "-print-file-name=libasan.so"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return Path(found) if Path(found).is_absolute() else None


def environment(log: Path, *, leaks: bool = False) -> dict[str, str]:
    """The environment of a process that loads sanitized switches and writes reports to `log`.*."""
    options = OPTIONS.format(leaks=int(leaks), log=log)
    return {
        **os.environ,
        "LD_PRELOAD": str(sanitizer_library()),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": f"{options}:print_stacktrace=1",
        "LSAN_OPTIONS": "exitcode=0",
    }


def compile_sanitized(
    bmv2_json: bytes, cache_dir: Path | None = None, *, sanitize: bool = True
) -> tuple[Program, Path]:
    """Stand in for `softswitch.programs.compile_program`."""
    del sanitize
    return compile_program(bmv2_json, cache_dir, sanitize=True)


def use_sanitizers() -> None:
    """Make every data plane of this process a sanitized one."""
    os.environ.pop("LD_PRELOAD", None)
    dataplane.compile_program = compile_sanitized  # type: ignore[attr-defined]


if __name__ == "__main__":
    if "LD_PRELOAD" not in os.environ:
        if sanitizer_library() is None:
            sys.exit("the compiler has no address sanitizer")
        os.execve(  # noqa: S606
            sys.executable,
            [sys.executable, "-m", "tests.sanitized", *sys.argv[1:]],
            environment(Path("/dev/stderr")),
        )
    use_sanitizers()
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
