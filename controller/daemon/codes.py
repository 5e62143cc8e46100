"""Canonical gRPC codes of the controller's errors, and what every call is bound to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from controller.daemon.store import Store
from controller.errors import AlreadyThere, NoRoom, NotKnown, NotNow
from controller.provision import ProvisionFailed
from host_stack.errors import BadInput, LayoutMismatch, LibraError

Context = Any
"""grpc.aio.ServicerContext, generic in the generated code only."""

MAX_CALL_S = 30.0
"""How long a call may take that gives no deadline, or a later one; streams may last for ever."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

_CODES: list[tuple[type[LibraError], grpc.StatusCode]] = [
    (NotKnown, grpc.StatusCode.NOT_FOUND),
    (AlreadyThere, grpc.StatusCode.ALREADY_EXISTS),
    (NoRoom, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NotNow, grpc.StatusCode.FAILED_PRECONDITION),
    (LayoutMismatch, grpc.StatusCode.FAILED_PRECONDITION),
    (ProvisionFailed, grpc.StatusCode.UNAVAILABLE),
    (BadInput, grpc.StatusCode.INVALID_ARGUMENT),
    (LibraError, grpc.StatusCode.INTERNAL),
]

_T = TypeVar("_T")


def code_of(error: LibraError) -> grpc.StatusCode:
    """The status of an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


async def refuse(context: Context, error: LibraError) -> None:
    """End a call with an error."""
    await context.abort(code_of(error), str(error))


async def answered(context: Context, work: Callable[[], _T | Awaitable[_T]]) -> _T:
    """What `work` returns; its errors, known or not, end the call with their code."""
    try:
        found = work()
        return await found if isinstance(found, Awaitable) else found
    except LibraError as error:
        await refuse(context, error)
        raise


def once(store: Store, request: Any, work: Callable[[], _T], reply: type[_T]) -> _T:
    """Carry a changing call out, or answer as it was answered before (by its request id).

    What it changes and the answer are one transaction.

    Raises:
        BadInput: there is no request id, or none that is allowed.
        AlreadyThere: the id was used for another call.
    """
    if not _REQUEST_ID.fullmatch(request.request_id):
        raise BadInput(
            f"request id {request.request_id!r}: 1 to 64 letters, digits, '.', '_', ':' and '-' "
            "are needed, a UUID for example"
        )
    content = type(request).__name__.encode() + request.SerializeToString(deterministic=True)
    digest = hashlib.sha256(content).digest()
    if (known := store.answer_to(request.request_id, digest)) is not None:
        answer: Any = reply()
        answer.ParseFromString(known)
        return answer  # type: ignore[no-any-return]
    with store.change():
        made: Any = work()
        store.save_answer(request.request_id, digest, made.SerializeToString())
    return made  # type: ignore[no-any-return]
