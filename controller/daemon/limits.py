"""At most so many calls at once. Streams stay open, so that they are counted by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import grpc

from controller.errors import NoRoom

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class Places:
    """A number of places, each taken as long as something lasts."""

    def __init__(self, most: int, what: str) -> None:
        """`what` is of what there are so many, for people."""
        self._most = most
        self._what = what
        self._taken = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take one; `NoRoom` if there is none."""
        if self._taken >= self._most:
            raise NoRoom(f"{self._what}: {self._most} at once are the most; try again later")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


async def in_place(
    place: AbstractContextManager[None], handler: Any, request: Any, context: Any
) -> AsyncIterator[Any]:
    """The messages of a stream, which has its place as long as it lasts."""
    try:
        with place:
            async for message in handler.unary_stream(request, context):
                yield message
    except NoRoom as error:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))


class Limits(grpc.aio.ServerInterceptor):
    """Ends further calls, or further streams, with RESOURCE_EXHAUSTED."""

    def __init__(self, calls: int, streams: int) -> None:
        self._calls = Places(calls, "calls")
        self._streams = Places(streams, "streams")

    async def intercept_service(
        self, continuation: Continuation, details: grpc.HandlerCallDetails
    ) -> Any:
        """Put a limit around the handler of a call."""
        handler = await continuation(details)
        if handler is None:
            return None
        if handler.unary_unary is not None:
            return self._limited_call(handler)
        return handler if handler.unary_stream is None else self._limited_stream(handler)

    def _limited_call(self, handler: Any) -> Any:
        async def call(request: Any, context: Any) -> Any:
            try:
                with self._calls.place():
                    return await handler.unary_unary(request, context)
            except NoRoom as error:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))

        return grpc.unary_unary_rpc_method_handler(
            call, handler.request_deserializer, handler.response_serializer
        )

    def _limited_stream(self, handler: Any) -> Any:
        async def stream(request: Any, context: Any) -> Any:
            async for message in in_place(self._streams.place(), handler, request, context):
                yield message

        return grpc.unary_stream_rpc_method_handler(
            stream, handler.request_deserializer, handler.response_serializer
        )
