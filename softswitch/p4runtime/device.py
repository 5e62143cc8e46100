"""The device: its ports and the pipelines it runs.

Saving and committing are apart in P4Runtime: a saved pipeline already takes reads and writes (its
tables fill up before any packet sees them) and becomes the running one when it is committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.errors import SoftSwitchError
from softswitch.p4runtime.errors import invalid, not_found, precondition
from softswitch.p4runtime.notifications import NotificationPump, notifies
from softswitch.p4runtime.packet_io import PacketInPump
from softswitch.p4runtime.pipeline import Loader, Pipeline, verify
from softswitch.p4runtime.reconcile import carry_over
from softswitch.p4runtime.turns import FairLock

LOGGER = logging.getLogger(__name__)

Action = p4r.SetForwardingPipelineConfigRequest
Check = Callable[[], None]
"""Raises P4RuntimeError if the caller may not change the device (any more)."""


class Device:
    """One switch: ports (number to interface name), an optional CPU port, and its pipelines."""

    def __init__(
        self,
        device_id: int,
        load: Loader,
        *,
        ports: Mapping[int, str] | None = None,
        cpu_port: int | None = None,
        deliver: Callable[[p4r.PacketIn], None] | None = None,
        notify: Callable[[p4r.StreamMessageResponse], None] | None = None,
        prepare: Callable[[DataPlane], None] | None = None,
    ) -> None:
        self.device_id = device_id
        self.cpu_port = cpu_port
        self.lock = FairLock()
        """Held by Writes (see `service.WRITE_TURN`), by Reads while they look, and by a commit."""
        self._load = load
        self._ports = dict(ports or {})
        self._deliver = deliver
        self._notify = notify
        self._prepare = prepare
        self._setting = threading.Lock()
        self._running: Pipeline | None = None
        self._saved: Pipeline | None = None
        self._pump: PacketInPump | None = None
        self._notifications: NotificationPump | None = None

    @property
    def running(self) -> Pipeline | None:
        """The committed pipeline."""
        return self._running

    def pipeline(self) -> Pipeline:
        """Return the pipeline that reads and writes mean: a saved one, else the running one."""
        pipeline = self._saved or self._running
        if pipeline is None:
            raise precondition(
                f"no forwarding pipeline config is set for device {self.device_id}; send one by "
                "SetForwardingPipelineConfig"
            )
        return pipeline

    def wait_for_writes(self) -> None:
        """Return when no Write is in progress."""
        with self.lock:
            pass

    def set_config(
        self, action: int, config: p4r.ForwardingPipelineConfig | None, check: Check
    ) -> None:
        """Do what a SetForwardingPipelineConfig request asks.

        `check` is called when it is this request's turn, and again when the slow part, compiling,
        is over. If anything fails the running pipeline goes on as before. Raises P4RuntimeError
        or another SoftSwitchError.
        """
        if action not in (
            Action.VERIFY,
            Action.VERIFY_AND_SAVE,
            Action.VERIFY_AND_COMMIT,
            Action.COMMIT,
            Action.RECONCILE_AND_COMMIT,
        ):
            raise invalid(
                f"action {action} is unknown; allowed are VERIFY, VERIFY_AND_SAVE, "
                "VERIFY_AND_COMMIT, COMMIT and RECONCILE_AND_COMMIT"
            )
        with self._setting:
            check()
            if action == Action.COMMIT:
                self._commit_saved(config, check)
            else:
                self._verify_and(action, config, check)

    def close(self) -> None:
        """Stop the data plane and free both pipelines."""
        with self._setting, self.lock:
            if self._running is not None:
                self._detach(self._running)
                self._running.close()
            self._drop_saved()
            self._running = None

    def _commit_saved(self, config: p4r.ForwardingPipelineConfig | None, check: Check) -> None:
        if config is not None:
            raise invalid("COMMIT takes no config; it commits the saved one")
        with self.lock:
            check()
            if self._saved is None:
                raise not_found("no saved config; send one with VERIFY_AND_SAVE first")
            self._commit(self._saved)

    def _verify_and(
        self, action: int, config: p4r.ForwardingPipelineConfig | None, check: Check
    ) -> None:
        if config is None:
            raise invalid("the request has no config")
        pipeline = verify(config, self._load, self.cpu_port, self._ports)
        try:
            if action == Action.VERIFY:
                pipeline.close()
                return
            with self.lock:
                check()
                if action == Action.VERIFY_AND_SAVE:
                    self._drop_saved()
                    self._saved = pipeline
                elif action == Action.RECONCILE_AND_COMMIT and self._running is not None:
                    self._commit(pipeline, carry_over(self._running, pipeline))
                else:
                    self._commit(pipeline)
        except Exception:
            pipeline.close()
            raise

    def _drop_saved(self) -> None:
        if self._saved is not None:
            self._saved.close()
            self._saved = None

    def _commit(self, pipeline: Pipeline, carry: Callable[[], None] = lambda: None) -> None:
        """Let `pipeline` take over the ports; the former one takes them back if it cannot.

        `carry` is called while neither has them.
        """
        former = self._running
        if former is not None:
            self._detach(former)
        try:
            carry()
            self._attach(pipeline)
        except SoftSwitchError:
            if former is not None:
                self._attach(former)
            raise
        self._running = pipeline
        if self._saved is pipeline:
            self._saved = None
        self._drop_saved()
        if former is not None:
            former.close()
        LOGGER.info("device %d runs a new pipeline", self.device_id)

    def _attach(self, pipeline: Pipeline) -> None:
        dataplane = pipeline.dataplane
        attached = []
        try:
            for port, ifname in self._ports.items():
                dataplane.attach_port(port, ifname)
                attached.append(port)
            dataplane.set_cpu_port(self.cpu_port)
            if self._prepare is not None:
                self._prepare(dataplane)
            if self._ports:
                dataplane.start()
        except SoftSwitchError:
            for port in attached:
                dataplane.detach_port(port)
            raise
        if self.cpu_port is not None and self._deliver is not None:
            self._pump = PacketInPump(pipeline.schema, dataplane, self._deliver)
            self._pump.start()
        if self._notify is not None and notifies(pipeline):
            self._notifications = NotificationPump(pipeline, self._ports, self._notify, self.lock)
            self._notifications.start()

    def _detach(self, pipeline: Pipeline) -> None:
        """Take the ports from a pipeline; what fails there must not hold up its successor."""
        if self._pump is not None:
            self._pump.stop()
            self._pump = None
        if self._notifications is not None:
            self._notifications.stop()
            self._notifications = None
        dataplane = pipeline.dataplane
        steps: list[Callable[[], None]] = [dataplane.stop]
        steps += [partial(dataplane.detach_port, port) for port in self._ports]
        for step in steps:
            try:
                step()
            except SoftSwitchError as error:
                LOGGER.error("giving ports back: %s", error)
