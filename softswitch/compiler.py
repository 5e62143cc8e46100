"""Generated C to a shared library, kept in a cache by content.

The name in the cache is the SHA-256 of the source, the run-time headers, the compiler's version,
the flags and the processor's features (the code is tuned to it). Files enter the cache by an atomic
rename, so that any number of processes may compile at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from softswitch.errors import NoCompiler
from softswitch.folders import make_private

RUNTIME = Path(__file__).parent / "runtime"
FLAGS = (
    *("-std=gnu11", "-O2", "-march=native", "-fno-strict-aliasing", "-fno-semantic-interposition"),
    *("-fPIC", "-shared", "-w"),
)
# Pipelines are long functions without loops, in which GCC's usual way to allocate registers spills
# what the next statement needs: 15 to 30 % slower. Checksums are loops that are worth vectors.
GCC_FLAGS = ("-fira-algorithm=priority", "-ftree-vectorize", "-fvect-cost-model=dynamic")
SANITIZE_FLAGS = ("-g", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
COMPILE_TIMEOUT_S = 300
_HINT = "install gcc or clang, or set CC to a C compiler"


@dataclass(frozen=True)
class Compiler:
    """A C compiler: its command and what `--version` prints."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """Return the compiler that CC names, else the first of cc, gcc and clang on the path."""
    chosen = os.environ.get("CC", "").strip()
    candidates = [shlex.split(chosen)] if chosen else [["cc"], ["gcc"], ["clang"]]
    for command in candidates:
        path = shutil.which(command[0])
        if path is None:
            continue
        full = (path, *command[1:])
        result = _run([*full, "--version"], timeout_s=30)
        if result.returncode == 0:
            return Compiler(full, result.stdout)
    wanted = chosen or "cc, gcc or clang"
    raise NoCompiler(f"no C compiler: {wanted} was not found or does not run; {_HINT}")


def default_cache_dir() -> Path:
    """Return $XDG_CACHE_HOME/softswitch, or ~/.cache/softswitch."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "softswitch"


def build(source: str, cache_dir: Path | None = None, *, sanitize: bool = False) -> Path:
    """Compile `source` unless the cache has it; return the path of the shared library.

    `sanitize` adds the address and undefined-behaviour sanitizers (the process must then preload
    their run-time library). Raises NoCompiler when there is no compiler or it fails.
    """
    directory = open_cache(cache_dir)
    compiler = find_compiler()
    flags = _flags(compiler, sanitize=sanitize)
    library = directory / f"{_digest(source, compiler, flags)}.so"
    seal = library.with_suffix(".sha256")
    if _is_whole(library, seal):
        return library
    with tempfile.TemporaryDirectory(dir=directory, prefix="build-") as scratch:
        unit, output = Path(scratch) / "switch.c", Path(scratch) / "switch.so"
        unit.write_text(source)
        command = [*compiler.command, *flags, f"-I{RUNTIME}", str(unit), "-o", str(output)]
        result = _run([*command, "-lpthread"], timeout_s=COMPILE_TIMEOUT_S)
        if result.returncode != 0:
            tail = "\n".join(result.stderr.splitlines()[-20:])
            raise NoCompiler(f"{compiler.command[0]} failed on the generated source:\n{tail}")
        made = Path(scratch) / "seal"
        made.write_text(_sha256(output))
        os.replace(output, library)
        os.replace(made, seal)
    return library


def build_key(*, sanitize: bool = False) -> str:
    """A hash of all that a library depends on beside its source."""
    compiler = find_compiler()
    return _digest("", compiler, _flags(compiler, sanitize=sanitize))


def cached_library(directory: Path, name: str) -> Path | None:
    """Return a library of the cache by its file name, None if it is not there or not whole."""
    library = directory / Path(name).name
    return library if _is_whole(library, library.with_suffix(".sha256")) else None


def _flags(compiler: Compiler, *, sanitize: bool) -> tuple[str, ...]:
    own = () if "clang" in compiler.version else GCC_FLAGS
    return (*FLAGS, *own, *(SANITIZE_FLAGS if sanitize else ()))


def _is_whole(library: Path, seal: Path) -> bool:
    """Whether a library is what the compiler made: loading a damaged one would end the process."""
    try:
        return seal.read_text() == _sha256(library)
    except (OSError, ValueError):
        return False


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCompiler(f"{command[0]} cannot be run: {error}; {_HINT}") from None


def open_cache(cache_dir: Path | None = None) -> Path:
    """Create the cache; refuse one that other users can write, since code is loaded from it."""
    directory = cache_dir or default_cache_dir()
    try:
        private = make_private(directory)
    except OSError as error:
        raise NoCompiler(f"the cache {directory} cannot be used: {error}") from None
    if not private:
        raise NoCompiler(
            f"the cache {directory} belongs to or is writable by another user: "
            "set XDG_CACHE_HOME to a directory of your own"
        )
    return directory


def _digest(source: str, compiler: Compiler, flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    parts = [source, compiler.version, " ".join((*compiler.command, *flags)), _processor()]
    parts += [header.read_text() for header in sorted(RUNTIME.glob("*.h"))]
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _processor() -> str:
    """Return what -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    wanted = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))
