"""Certificates for tests, made with the command openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs the command openssl"
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    cert: Path
    key: Path


class Authority:
    """An authority that issues certificates into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.pair = self._files(name)
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(self.pair.key), "-out", str(self.pair.cert)),
        )

    @property
    def cert(self) -> Path:
        """The authority's own certificate."""
        return self.pair.cert

    def issue(self, name: str, *addresses: str) -> Pair:
        """Issue a certificate that is valid for localhost, 127.0.0.1 and further addresses."""
        pair = self._files(name)
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        names = ["DNS:localhost", *(f"IP:{each}" for each in ("127.0.0.1", *addresses))]
        extensions.write_text(f"subjectAltName={','.join(names)}\n")
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.cert)),
            *("-CAkey", str(self.pair.key), "-CAcreateserial", "-days", "2"),
            *("-extfile", str(extensions), "-out", str(pair.cert)),
        )
        return pair

    def encrypted(self, pair: Pair, password: str) -> Path:
        """Return a copy of a private key that needs a password."""
        path = pair.key.with_suffix(".enc")
        _openssl(
            *("ec", "-in", str(pair.key), "-aes256", "-passout", f"pass:{password}"),
            *("-out", str(path)),
        )
        return path

    def _files(self, name: str) -> Pair:
        return Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
