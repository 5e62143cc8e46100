"""TLS and mutual TLS of a client: of the controller to switches, and of the CLI to a controller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import finsy as fy
import grpc

from host_stack.errors import BadInput


@dataclass(frozen=True)
class ClientTls:
    """PEM files of a client.

    Attributes:
        ca: certificates of the authorities that the server's must come from.
        cert, key: the client's own certificate and private key (mutual TLS); both or neither.
        name: what the server's certificate is for, where that is not the address.
    """

    ca: Path
    cert: Path | None = None
    key: Path | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) is not (self.key is None):
            raise BadInput("a certificate and its key go together; give both or neither")

    def for_finsy(self) -> fy.GRPCCredentialsTLS:
        """As finsy takes them; `BadInput` names a file that cannot be read."""
        ca, cert, key = self._read()
        return fy.GRPCCredentialsTLS(
            cacert=ca, cert=cert, private_key=key, target_name_override=str(self.name)
        )

    def for_grpc(self) -> grpc.ChannelCredentials:
        """As gRPC takes them; `BadInput` names a file that cannot be read."""
        ca, cert, key = self._read()
        return grpc.ssl_channel_credentials(ca, key, cert)

    @property
    def options(self) -> list[tuple[str, str]]:
        """Of the channel."""
        return [("grpc.ssl_target_name_override", str(self.name))] if self.name else []

    def _read(self) -> tuple[bytes, bytes | None, bytes | None]:
        ca = read_pem(self.ca, "certificate of an authority")
        if self.cert is None or self.key is None:
            return ca, None, None
        return ca, read_pem(self.cert, "certificate"), read_pem(self.key, "private key")


def read_pem(path: Path, what: str) -> bytes:
    """The bytes of a file; `BadInput` if it cannot be read or is no PEM file."""
    try:
        found = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the {what} {path}: {error.strerror}") from error
    if b"-----BEGIN " not in found:
        raise BadInput(f"{path} holds no {what} in PEM format")
    return found
