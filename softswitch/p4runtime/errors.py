"""Errors of the P4Runtime service and their form on the wire.

The specification's section "Error Reporting Messages" says what a client sees: a gRPC status, and
for batches one `p4.v1.Error` per update, in order, inside a `google.rpc.Status` that travels in
the trailing metadata `grpc-status-details-bin`.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from finsy.proto import p4r, rpc_status
from google.protobuf import any_pb2

from softswitch.errors import (
    AlreadyExists,
    BadProgram,
    InUse,
    InvalidArgument,
    NoCompiler,
    NotFound,
    PortError,
    ResourceExhausted,
    SoftSwitchError,
    UnsupportedConstruct,
)

ERROR_SPACE = "softswitch"
STATUS_DETAILS_KEY = "grpc-status-details-bin"

MAX_DETAILS_BYTES = 60 * 1024
"""Clients bound the metadata they accept (finsy: 64 KiB); beyond it they would see no error."""

MAX_MESSAGE_CHARS = 400


class P4RuntimeError(SoftSwitchError):
    """An error that goes to the client: a canonical code and what was wrong and what is allowed."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def number(self) -> int:
        """The canonical code as a number (`google.rpc.Code`)."""
        return code_number(self.code)


def code_number(code: grpc.StatusCode) -> int:
    """Return the number that `google.rpc.Code` gives to `code`."""
    return int(code.value[0])


def invalid(message: str) -> P4RuntimeError:
    """Return an INVALID_ARGUMENT error."""
    return P4RuntimeError(grpc.StatusCode.INVALID_ARGUMENT, message)


def out_of_range(message: str) -> P4RuntimeError:
    """Return an OUT_OF_RANGE error."""
    return P4RuntimeError(grpc.StatusCode.OUT_OF_RANGE, message)


def not_found(message: str) -> P4RuntimeError:
    """Return a NOT_FOUND error."""
    return P4RuntimeError(grpc.StatusCode.NOT_FOUND, message)


def already_exists(message: str) -> P4RuntimeError:
    """Return an ALREADY_EXISTS error."""
    return P4RuntimeError(grpc.StatusCode.ALREADY_EXISTS, message)


def denied(message: str) -> P4RuntimeError:
    """Return a PERMISSION_DENIED error."""
    return P4RuntimeError(grpc.StatusCode.PERMISSION_DENIED, message)


def precondition(message: str) -> P4RuntimeError:
    """Return a FAILED_PRECONDITION error."""
    return P4RuntimeError(grpc.StatusCode.FAILED_PRECONDITION, message)


def exhausted(message: str) -> P4RuntimeError:
    """Return a RESOURCE_EXHAUSTED error."""
    return P4RuntimeError(grpc.StatusCode.RESOURCE_EXHAUSTED, message)


def unimplemented(message: str) -> P4RuntimeError:
    """Return an UNIMPLEMENTED error."""
    return P4RuntimeError(grpc.StatusCode.UNIMPLEMENTED, message)


_ENGINE_CODES: tuple[tuple[type[SoftSwitchError], grpc.StatusCode], ...] = (
    (InUse, grpc.StatusCode.FAILED_PRECONDITION),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (ResourceExhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (InvalidArgument, grpc.StatusCode.INVALID_ARGUMENT),
    (UnsupportedConstruct, grpc.StatusCode.INVALID_ARGUMENT),
    (BadProgram, grpc.StatusCode.INVALID_ARGUMENT),
    (NoCompiler, grpc.StatusCode.FAILED_PRECONDITION),
    (PortError, grpc.StatusCode.FAILED_PRECONDITION),
)


def from_engine(error: SoftSwitchError) -> P4RuntimeError:
    """Give an error of the engine its canonical code; a P4RuntimeError stays as it is."""
    if isinstance(error, P4RuntimeError):
        return error
    for kind, code in _ENGINE_CODES:
        if isinstance(error, kind):
            return P4RuntimeError(code, str(error))
    return P4RuntimeError(grpc.StatusCode.INTERNAL, str(error))


def batch_status(results: Sequence[P4RuntimeError | None]) -> tuple[str, bytes | None]:
    """Describe a batch with at least one error: (status message, `grpc-status-details-bin`).

    `results` holds one item per element of the batch, None where it succeeded. The details are
    None where they would not fit in the metadata that clients accept; the message says so.
    """
    failed = [(index, error) for index, error in enumerate(results) if error is not None]
    # What was given up because of another element does not say what is wrong.
    first, error = min(failed, key=lambda item: item[1].code is grpc.StatusCode.ABORTED)
    message = (
        f"{len(failed)} of {len(results)} failed; the first is number {first}: "
        f"{_clip(error.message)}"
    )
    details = _details(message, [_wire_error(error) for error in results])
    if details.ByteSize() <= MAX_DETAILS_BYTES:
        return message, details.SerializeToString()
    message += f" (details of {len(results)} elements left out: too large for gRPC metadata)"
    return message, None


def _details(message: str, errors: Sequence[p4r.Error]) -> rpc_status.Status:
    status = rpc_status.Status(code=code_number(grpc.StatusCode.UNKNOWN), message=message)
    for error in errors:
        packed = any_pb2.Any()
        packed.Pack(error)
        status.details.append(packed)
    return status


def _wire_error(error: P4RuntimeError | None) -> p4r.Error:
    if error is None:
        return p4r.Error()
    return p4r.Error(canonical_code=error.number, message=_clip(error.message), space=ERROR_SPACE)


def _clip(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"
