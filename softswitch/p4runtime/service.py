"""The P4Runtime RPCs: checks in the order of the specification, then the device."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NoReturn, TypeVar

import grpc
from finsy.proto import p4r, p4r_grpc

from softswitch.errors import SoftSwitchError
from softswitch.p4runtime.arbitration import Arbitration
from softswitch.p4runtime.batches import attempt, write_batch
from softswitch.p4runtime.device import Device
from softswitch.p4runtime.entities import read_entities
from softswitch.p4runtime.errors import (
    STATUS_DETAILS_KEY,
    P4RuntimeError,
    batch_status,
    denied,
    exhausted,
    from_engine,
    invalid,
    not_found,
)
from softswitch.p4runtime.limits import (
    MAX_QUERIES,
    MAX_STREAMS,
    MAX_UPDATES,
    ReadSlots,
    check_count,
)
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.roles import Access, readable
from softswitch.p4runtime.stream import Stream

LOGGER = logging.getLogger(__name__)

API_VERSION = "1.4.1"

CHUNK_ENTITIES = 1000
CHUNK_BYTES = 1 << 20

WRITE_TURN = 512
"""Updates of a Write that is no unit after which others have their turn."""

ResultT = TypeVar("ResultT")


class P4RuntimeService(p4r_grpc.P4RuntimeServicer):
    """The servicer of `p4.v1.P4Runtime` for one device."""

    def __init__(self, device: Device, arbitration: Arbitration) -> None:
        self._device = device
        self._arbitration = arbitration
        self._streams = threading.BoundedSemaphore(MAX_STREAMS)
        self._reads = ReadSlots()

    def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: Any
    ) -> p4r.CapabilitiesResponse:
        """Return the version of the API."""
        if request.device_id:
            _guard(context, lambda: self._check_device(request.device_id))
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Verify, save or commit a pipeline."""

        def check() -> None:
            if not context.is_active():
                # The caller gave up (compiling may take longer than its deadline): what it does
                # not know of must not happen. The compiled program stays cached.
                raise P4RuntimeError(grpc.StatusCode.CANCELLED, "the caller has gone")
            if not self._check_primary(request).pipeline:
                raise denied(f"role {request.role!r} may not set the pipeline; see its role.config")

        def work() -> None:
            self._check_device(request.device_id)
            check()
            config = request.config if request.HasField("config") else None
            self._device.set_config(request.action, config, check)

        _guard(context, work)
        return p4r.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """Return the committed pipeline's configuration, or none if there is none yet."""
        return _guard(context, lambda: self._get_config(request))

    def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:
        """Apply a batch of updates."""
        _abort_batch(context, _guard(context, lambda: self._write(request)))
        return p4r.WriteResponse()

    def Read(self, request: p4r.ReadRequest, context: Any) -> Iterator[p4r.ReadResponse]:
        """Stream the entities that a batch of queries selects."""
        with ExitStack() as stack:
            slot = _guard(context, lambda: stack.enter_context(self._reads.slot(context.cancel)))
            results, errors = _guard(context, lambda: self._read(request))
            for response in _chunks(results):
                yield response
                slot.progress()
        _abort_batch(context, errors)

    def StreamChannel(
        self, request_iterator: Iterator[p4r.StreamMessageRequest], context: Any
    ) -> Iterator[p4r.StreamMessageResponse]:
        """Serve one controller's stream."""
        if not self._streams.acquire(blocking=False):
            _abort(context, exhausted(f"at most {MAX_STREAMS} streams are supported"))
        try:
            yield from Stream(self._device, self._arbitration, context).run(request_iterator)
        finally:
            self._streams.release()

    def _get_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        self._check_device(request.device_id)
        kind = request.response_type
        if kind not in request.ResponseType.values():
            raise invalid(f"response_type {kind} is unknown; allowed are 0 (ALL) to 3")
        response = p4r.GetForwardingPipelineConfigResponse()
        pipeline = self._device.running
        if pipeline is None:
            return response
        config = pipeline.config
        response.config.SetInParent()
        if config.HasField("cookie"):
            response.config.cookie.CopyFrom(config.cookie)
        if kind in (request.ALL, request.P4INFO_AND_COOKIE):
            response.config.p4info.CopyFrom(config.p4info)
        if kind in (request.ALL, request.DEVICE_CONFIG_AND_COOKIE):
            response.config.p4_device_config = config.p4_device_config
        return response

    def _write(self, request: p4r.WriteRequest) -> list[P4RuntimeError | None]:
        self._check_device(request.device_id)
        count, results = len(request.updates), list[P4RuntimeError | None]()
        is_unit = request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR
        turn = max(count, 1) if is_unit else WRITE_TURN
        first: Pipeline | None = None
        for start in range(0, max(count, 1), turn):
            try:
                with self._device.lock:
                    first = self._write_part(request, slice(start, start + turn), first, results)
            except SoftSwitchError as error:
                if not start:
                    raise
                # Another controller became primary, or set a pipeline, between two turns.
                return results + [from_engine(error)] * (count - start)
        return results

    def _write_part(
        self,
        request: p4r.WriteRequest,
        part: slice,
        first: Pipeline | None,
        results: list[P4RuntimeError | None],
    ) -> Pipeline:
        """Apply some updates of a Write to the pipeline that the first ones were applied to."""
        access = self._check_primary(request)
        check_count(len(request.updates), MAX_UPDATES, "updates")
        others = self._arbitration.foreign_objects(request.role)
        pipeline = self._device.pipeline()
        if first is not None and pipeline is not first:
            raise P4RuntimeError(
                grpc.StatusCode.ABORTED, "not applied: another pipeline was set meanwhile"
            )
        results += write_batch(
            pipeline,
            request.updates[part],
            request.atomicity,
            lambda update: access.check_write(update.entity, others),
        )
        return pipeline

    def _read(
        self, request: p4r.ReadRequest
    ) -> tuple[list[Iterator[p4r.Entity]], list[P4RuntimeError | None]]:
        self._check_device(request.device_id)
        access = self._arbitration.access(request.role)
        check_count(len(request.entities), MAX_QUERIES, "queries")
        results: list[Iterator[p4r.Entity]] = []

        def look(pipeline: Pipeline, query: p4r.Entity) -> None:
            results.append(readable(access, read_entities(pipeline, query)))

        with self._device.lock:
            pipeline = self._device.pipeline()
            errors = [attempt(look, pipeline, query) for query in request.entities]
        return results, errors

    def _check_device(self, device_id: int) -> None:
        if device_id != self._device.device_id:
            raise not_found(
                f"device {device_id} is unknown; this switch is device {self._device.device_id}"
            )

    def _check_primary(
        self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest
    ) -> Access:
        election_id = request.election_id if request.HasField("election_id") else None
        return self._arbitration.check_primary(request.role, election_id)


def _guard(context: Any, work: Callable[[], ResultT]) -> ResultT:
    """Run the body of an RPC; its errors become the RPC's status."""
    try:
        return work()
    except SoftSwitchError as error:
        _abort(context, from_engine(error))
    except Exception:
        LOGGER.exception("an RPC failed")
        _abort(
            context,
            P4RuntimeError(grpc.StatusCode.INTERNAL, "internal error; the switch's log has more"),
        )


def _abort(context: Any, error: P4RuntimeError) -> NoReturn:
    context.abort(error.code, error.message)
    raise AssertionError("abort returned")


def _abort_batch(context: Any, errors: list[P4RuntimeError | None]) -> None:
    """Abort with the status of a batch if any of its elements failed."""
    if all(error is None for error in errors):
        return
    message, details = batch_status(errors)
    if details is not None:
        context.set_trailing_metadata(((STATUS_DETAILS_KEY, details),))
    context.abort(grpc.StatusCode.UNKNOWN, message)


def _chunks(results: list[Iterator[p4r.Entity]]) -> Iterator[p4r.ReadResponse]:
    chunk: list[p4r.Entity] = []
    size = 0
    for result in results:
        for entity in result:
            chunk.append(entity)
            size += entity.ByteSize()
            if len(chunk) >= CHUNK_ENTITIES or size >= CHUNK_BYTES:
                yield p4r.ReadResponse(entities=chunk)
                chunk, size = [], 0
    if chunk:
        yield p4r.ReadResponse(entities=chunk)
