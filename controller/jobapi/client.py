"""A job's server as client of the job's controller: its incarnations, and its reports."""

from __future__ import annotations

import io
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grpc

from controller.errors import Forbidden
from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.channel import CALL_S, ControllerAddress, NoController
from controller.jobapi.follower import Follower
from controller.jobapi.standing import to_message
from host_stack.incarnation import Incarnation, is_newer
from host_stack.placement import Placement
from host_stack.standing import Standing
from host_stack.wake import Wake

LOGGER = logging.getLogger(__name__)

REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""Of a client that is not known, or not for this job: nothing is gained by asking again."""

REMIND_S = 10.0
"""How often a log says that the controller is being waited for."""


class JobIncarnations:
    """`host_stack.incarnation.Incarnations` of a controller.

    A thread of its own follows the controller's stream, whoever is restarted meanwhile, and wakes
    the server's poller; requests are sent without waiting for their answers.
    """

    def __init__(self, address: ControllerAddress, job: int) -> None:
        """Follow `job` at a controller."""
        self._address = address
        self._job = job
        self._process = int.from_bytes(os.urandom(8), "big")
        self._channel = address.open()
        self._stub = job_pb2_grpc.JobServiceStub(self._channel)
        self._wake = Wake()
        self._known = threading.Condition()
        self._newest: Incarnation | None = None
        self._is_news = False
        self._failure: str | None = None
        self._refusal: str | None = None
        self._reminded_at = 0.0
        self._calls: dict[str, grpc.Future[Any]] = {}
        self._report: grpc.Future[Any] | None = None
        self._follower = Follower(
            "job-watch",
            lambda: self._stub.Watch(job_pb2.WatchRequest(job=job)),
            self._take,
            self._failed,
        )

    # -- host_stack.incarnation.Incarnations --------------------------------------------------

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._wake.fileno()

    def news(self) -> Incarnation | None:
        """The newest incarnation that was not returned before, or None."""
        with self._known:
            self._wake.clear()
            is_news, self._is_news = self._is_news, False
            return self._newest if is_news else None

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Ask for an incarnation after `seen`."""
        LOGGER.info("the controller is asked for another epoch: %s", reason)
        self._call("renew", self._stub.Renew, job_pb2.RenewRequest, reason, seen, round_)

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Ask the controller to look at the switch."""
        LOGGER.warning("the controller is asked to look at the switch: %s", reason)
        self._call("suspect", self._stub.Suspect, job_pb2.SuspectRequest, reason, seen, round_)

    def report(self, standing: Standing) -> None:
        """Tell the controller how the job stands."""
        request = job_pb2.ReportRequest(
            job=self._job, server_process=self._process, standing=to_message(standing)
        )
        self._report = self._stub.Report.future(request, timeout=CALL_S)

    # -- beginning and end --------------------------------------------------------------------

    def begin(self, round_: int, *, resumed: bool, timeout_s: float) -> Incarnation:
        """Wait for the incarnation in which a server begins with `round_`.

        One that has `resumed` the work of another server takes a new epoch.

        Raises:
            NoController: the controller did not answer in time, or their TLS does not fit.
            Forbidden: it does not know this client, or not as one of this job.
        """
        deadline = time.monotonic() + timeout_s
        seen = self._await(lambda found: True, deadline, lambda: None)
        if resumed:
            old = seen
            seen = self._await(
                lambda found: is_newer(found.epoch, old.epoch),
                deadline,
                lambda: self.renew("the server was restarted", old, round_),
            )
        return replace(seen, round=round_, planned=False)

    def settle(self) -> None:
        """Wait until the last report has arrived, or is lost."""
        if self._report is not None:
            self._report.exception()

    def close(self) -> None:
        """Stop following."""
        self._follower.close(self._channel)
        self._wake.close()

    def _await(
        self, wanted: Callable[[Incarnation], bool], deadline: float, ask: Callable[[], None]
    ) -> Incarnation:
        fault: str | None = None
        while True:
            ask()
            with self._known:
                self._known.wait_for(
                    lambda: self._newest is not None and wanted(self._newest), timeout=1.0
                )
                if self._newest is not None and wanted(self._newest):
                    self._is_news = self._newest.planned
                    return self._newest
            if self._refusal is not None:
                raise Forbidden(f"the controller refuses: {self._refusal}")
            # Twice, for a controller that ends also leaves connections half made.
            before, fault = fault, self._address.fault
            if time.monotonic() > deadline or (fault is not None and fault == before):
                raise NoController(
                    f"the controller at {self._address} gives job {self._job} no epoch: "
                    f"{fault or self._failure or 'it does not answer'}; look into its log"
                )

    # -- the stream ---------------------------------------------------------------------------

    def _take(self, message: job_pb2.Incarnation) -> None:
        self._failure = self._refusal = None
        known = self._newest
        if known is not None and known.version == message.version:
            placement = known.placement
        else:
            placement = Placement.load(io.BytesIO(message.placement))
        incarnation = Incarnation(
            message.epoch,
            message.round,
            message.fraction_bits,
            message.version,
            placement,
            message.planned,
            tuple(message.chain),
            message.on_switch,
        )
        with self._known:
            self._newest = incarnation
            self._known.notify_all()
            if known is None or known.epoch != incarnation.epoch or incarnation.planned:
                self._is_news = True
                self._wake.set()

    def _call(
        self,
        name: str,
        method: Any,
        kind: type[job_pb2.RenewRequest] | type[job_pb2.SuspectRequest],
        reason: str,
        seen: Incarnation,
        round_: int,
    ) -> None:
        """Send a request unless the last one of its name is still on its way."""
        last = self._calls.get(name)
        if last is not None and not last.done():
            return
        request = kind(
            job=self._job,
            server_process=self._process,
            seen_epoch=seen.epoch,
            round=round_,
            reason=reason,
        )
        call = method.future(request, timeout=CALL_S)
        call.add_done_callback(lambda done: self._answered(done, reason))
        self._calls[name] = call

    def _answered(self, call: Any, reason: str) -> None:
        error = None if call.cancelled() else call.exception()
        if isinstance(error, grpc.RpcError) and not self._follower.is_closed:
            self._failed(error, f"; a new epoch waits for it ({reason})")

    def _failed(self, error: grpc.RpcError, waits: str = "") -> None:
        """Remember why the controller was not reached, and say so now and then."""
        self._failure = f"{error.code().name}: {error.details()}"
        if error.code() in REFUSALS:
            self._refusal = error.details()
        now = time.monotonic()
        if now - self._reminded_at > REMIND_S:
            self._reminded_at = now
            LOGGER.warning("no controller at %s (%s)%s", self._address, self._failure, waits)
