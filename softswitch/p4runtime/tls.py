"""TLS and mutual TLS of the server (specification, section "Security concerns")."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from softswitch.errors import BadCertificate


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of a server: its certificate (with those that issued it) and its private key.

    With `client_ca` only clients are served that have a certificate issued by it (mutual TLS).
    """

    cert: Path
    key: Path
    client_ca: Path | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Read the files; raises BadCertificate naming the one that cannot be used."""
        # gRPC only says that something is wrong, when the first client connects; ssl says what.
        pair = (_read(self.key, "private key"), _read(self.cert, "certificate"))
        _check_certificates(self.cert)
        self._check_key()
        client_ca = None
        if self.client_ca is not None:
            client_ca = _read(self.client_ca, "certificate of the clients' authority")
            _check_certificates(self.client_ca)
        return grpc.ssl_server_credentials(
            [pair], root_certificates=client_ca, require_client_auth=client_ca is not None
        )

    def _check_key(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

        def refuse_password() -> str:
            raise BadCertificate(
                f"{self.key}: the private key is encrypted; write one without a password, readable "
                "by this user only"
            )

        try:
            context.load_cert_chain(self.cert, self.key, password=refuse_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise BadCertificate(
                    f"{self.key}: the private key is not the one of the certificate {self.cert}"
                ) from None
            raise BadCertificate(f"{self.key} holds no private key in PEM format") from None


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadCertificate(f"cannot read the {what} {path}: {error.strerror}") from None


def _check_certificates(path: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except ssl.SSLError:
        raise BadCertificate(f"{path} holds no certificate in PEM format") from None
