"""One StreamChannel: requests are read in a thread of their own, responses leave by a queue.

Whatever happens to a stream ends there: the controller leaves arbitration and nothing else stops.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from finsy.proto import p4r

from softswitch.errors import SoftSwitchError
from softswitch.p4runtime.arbitration import Arbitration, Controller
from softswitch.p4runtime.device import Device
from softswitch.p4runtime.errors import (
    ERROR_SPACE,
    P4RuntimeError,
    denied,
    from_engine,
    invalid,
    unimplemented,
)
from softswitch.p4runtime.packet_io import packet_out_bytes

LOGGER = logging.getLogger(__name__)

MAX_QUEUED = 4096
"""Responses waiting for a slow controller; packets beyond are dropped, notices end its stream."""


class Stream:
    """The server's side of one StreamChannel RPC."""

    def __init__(self, device: Device, arbitration: Arbitration, context: Any) -> None:
        self.controller = Controller(self._send)
        self._device = device
        self._arbitration = arbitration
        self._context = context
        self._responses: queue.Queue[p4r.StreamMessageResponse | None] = queue.Queue(MAX_QUEUED)
        self._error: P4RuntimeError | None = None

    def run(self, requests: Iterator[p4r.StreamMessageRequest]) -> Iterator[Any]:
        """Yield responses until the stream ends; aborts the RPC if the stream was at fault."""
        reader = threading.Thread(
            target=self._read, args=(requests,), name="p4runtime-stream", daemon=True
        )
        reader.start()
        try:
            while (response := self._responses.get()) is not None:
                yield response
        finally:
            self._arbitration.leave(self.controller)
        if self._error is not None:
            self._context.abort(self._error.code, self._error.message)

    def _read(self, requests: Iterator[p4r.StreamMessageRequest]) -> None:
        try:
            for request in requests:
                self._handle(request)
        except P4RuntimeError as error:
            self._error = error
        except Exception:
            # The request iterator raises when the RPC is over; anything else is a bug of ours.
            if self._context.is_active():
                LOGGER.exception("a stream failed")
                self._error = P4RuntimeError(
                    grpc.StatusCode.INTERNAL, "internal error; the switch's log has more"
                )
        finally:
            self._arbitration.leave(self.controller)
            self._end()

    def _handle(self, request: p4r.StreamMessageRequest) -> None:
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._arbitration.update(self.controller, request.arbitration)
            return
        try:
            if kind == "packet":
                self._packet_out(request.packet)
            elif kind == "digest_ack":
                self._acknowledge(request.digest_ack)
            elif kind == "other":
                raise unimplemented("this switch knows no messages of other types")
            else:
                raise invalid("the message has no update; send arbitration or packet")
        except SoftSwitchError as error:
            self._send(_stream_error(from_engine(error), request))

    def _packet_out(self, message: p4r.PacketOut) -> None:
        if self._device.cpu_port is None:
            raise unimplemented("this switch has no CPU port; start it with --cpu-port")
        if not self._arbitration.is_primary(self.controller):
            raise denied("only the primary may send packets")
        with self._device.lock:
            pipeline = self._device.running
            if pipeline is None:
                self._device.pipeline()
                raise invalid("the saved pipeline is not committed yet")
            pipeline.dataplane.packet_out(packet_out_bytes(pipeline.schema, message))

    def _acknowledge(self, message: p4r.DigestListAck) -> None:
        if not self._arbitration.is_primary(self.controller):
            raise denied("only the primary may acknowledge digests")
        with self._device.lock:
            pipeline = self._device.running or self._device.pipeline()
            pipeline.digests.acknowledge(message)

    def _send(self, response: p4r.StreamMessageResponse) -> None:
        """Queue a response; never waits."""
        try:
            self._responses.put_nowait(response)
        except queue.Full:
            if response.WhichOneof("update") == "arbitration":
                LOGGER.warning("a controller does not read its stream: ended")
                self._context.cancel()

    def _end(self) -> None:
        while True:
            try:
                self._responses.put_nowait(None)
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._responses.get_nowait()


def _stream_error(
    error: P4RuntimeError, request: p4r.StreamMessageRequest
) -> p4r.StreamMessageResponse:
    message = p4r.StreamError(canonical_code=error.number, message=error.message, space=ERROR_SPACE)
    kind = request.WhichOneof("update")
    if kind == "packet":
        message.packet_out.packet_out.metadata.extend(request.packet.metadata)
    elif kind == "digest_ack":
        message.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
    else:
        message.other.SetInParent()
    return p4r.StreamMessageResponse(error=message)
