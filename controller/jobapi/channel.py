"""How a controller is reached, and what its refusals become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from controller.errors import AlreadyThere, Forbidden, NoRoom, NotKnown, NotNow
from controller.jobapi.handshake import tls_fault
from controller.tls import ClientTls
from host_stack.errors import BadInput, LibraError
from host_stack.incarnation import MAX_PLACEMENT_BYTES

CALL_S = 5.0
"""How long an answer to a request is waited for."""

_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", MAX_PLACEMENT_BYTES + (1 << 16)),
]


class NoController(LibraError):
    """The controller does not answer."""


_ERRORS: dict[grpc.StatusCode, type[LibraError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: BadInput,
    grpc.StatusCode.NOT_FOUND: NotKnown,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyThere,
    grpc.StatusCode.RESOURCE_EXHAUSTED: NoRoom,
    grpc.StatusCode.FAILED_PRECONDITION: NotNow,
    grpc.StatusCode.UNAUTHENTICATED: Forbidden,
    grpc.StatusCode.PERMISSION_DENIED: Forbidden,
}


@dataclass(frozen=True)
class ControllerAddress:
    """Where a controller listens.

    Attributes:
        target: `unix:PATH` or HOST:PORT.
        tls: over TCP; None for a controller that has none.
        token: by which the controller knows this client; sent over TLS only.
    """

    target: str
    tls: ClientTls | None = None
    token: str = ""

    @classmethod
    def at_socket(cls, path: Path) -> ControllerAddress:
        """Of a Unix-domain socket."""
        return cls(f"unix:{path}")

    @classmethod
    def parse(cls, text: str, tls: Path | None = None) -> ControllerAddress:
        """HOST:PORT, with the folder of a client's files for TLS, or unix:PATH.

        The folder holds `ca.pem` and, as the controller wants it, `cert.pem` and `key.pem`, or
        `token`. Raises `BadInput` for what is neither.
        """
        if text.startswith("unix:"):
            return cls(text)
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal():
            raise BadInput(f"controller {text!r}: HOST:PORT or unix:PATH is needed")
        if tls is None:
            return cls(text)
        ca, cert, key, token = (tls / name for name in ("ca.pem", "cert.pem", "key.pem", "token"))
        if not ca.is_file():
            raise BadInput(f"{tls} holds no ca.pem")
        files = ClientTls(ca, cert, key) if cert.is_file() or key.is_file() else ClientTls(ca)
        return cls(text, files, token.read_text().strip() if token.is_file() else "")

    def open(self) -> grpc.Channel:
        """A channel; nothing is sent yet."""
        if self.tls is None:
            return grpc.insecure_channel(self.target, options=_OPTIONS)
        options = [*_OPTIONS, *self.tls.options]
        credentials = self.tls.for_grpc()
        if self.token:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(self.token)
            )
        return grpc.secure_channel(self.target, credentials, options=options)

    @property
    def fault(self) -> str | None:
        """What of TLS keeps a client from a controller that does not answer; None if nothing."""
        return tls_fault(self.target, self.tls)

    def __str__(self) -> str:
        return self.target


@contextmanager
def calls(address: ControllerAddress) -> Iterator[grpc.Channel]:
    """A channel to a controller, whose errors become ours.

    Raises:
        BadInput, NotKnown, AlreadyThere, NoRoom, NotNow, Forbidden: the controller refuses.
        NoController: it does not answer.
    """
    with address.open() as channel:
        try:
            yield channel
        except grpc.RpcError as error:
            kind = _ERRORS.get(error.code())
            if kind is not None:
                raise kind(f"the controller refuses: {error.details()}") from error
            why = address.fault or f"{error.code().name}: {error.details()}"
            raise NoController(f"the controller at {address} does not answer: {why}") from error
