"""Every call but a stream ends in time, whatever the caller asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from controller.daemon.codes import MAX_CALL_S

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class Deadlines(grpc.aio.ServerInterceptor):
    """Ends a call that answers once, after `MAX_CALL_S` at the latest, with DEADLINE_EXCEEDED."""

    async def intercept_service(
        self, continuation: Continuation, details: grpc.HandlerCallDetails
    ) -> Any:
        """Put a limit around the handler of a call."""
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        inner = handler.unary_unary

        async def limited(request: Any, context: Any) -> Any:
            try:
                async with asyncio.timeout(MAX_CALL_S):
                    return await inner(request, context)
            except TimeoutError:
                await context.abort(
                    grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {MAX_CALL_S:g} s"
                )

        return grpc.unary_unary_rpc_method_handler(
            limited, handler.request_deserializer, handler.response_serializer
        )
