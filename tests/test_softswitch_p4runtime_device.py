"""Ports and pipelines: failing hand-overs, callers that give up, controllers that do not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4r

from softswitch.dataplane import DataPlane
from softswitch.errors import PortError
from softswitch.p4runtime.arbitration import Arbitration, Controller
from softswitch.p4runtime.device import Action, Device
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.p4runtime.stream import MAX_QUEUED, Stream
from tests.p4rt_support import config

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler


PORTS = ((1, "if1"), (2, "if2"))


class Plane(DataPlane):
    """A data plane whose ports are only noted; one attempt to attach a port may fail."""

    attached: tuple[tuple[int, str], ...] = ()
    running = False
    fail_at: int | None = None
    """Which of all attempts to attach a port fails, counted down to 0; None: none of them."""

    def attach_port(self, port: int, ifname: str) -> None:
        """Note the port."""
        if Plane.fail_at is not None:
            Plane.fail_at -= 1
            if Plane.fail_at == 0:
                raise PortError(f"port {port} cannot use interface {ifname!r}")
        self.attached += ((port, ifname),)

    def detach_port(self, port: int) -> None:
        """Forget the port."""
        self.attached = tuple(item for item in self.attached if item[0] != port)

    def start(self) -> None:
        """Note it."""
        self.running = True

    def stop(self) -> None:
        """Note it, and fail as a data plane does that had died."""
        self.running = False
        raise PortError("the data plane had stopped")


class Context:
    """What a servicer needs of gRPC's context."""

    def __init__(self, *, active: bool = True) -> None:
        self.active = active
        self.cancelled = False

    def is_active(self) -> bool:
        """Tell whether the caller is still there."""
        return self.active

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        """End the RPC."""
        raise Aborted(code, details)

    def cancel(self) -> None:
        """End the stream."""
        self.cancelled = True


class Aborted(Exception):
    """An RPC that was ended with a status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


@pytest.fixture
def device(p4rt_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """Return a device with two ports."""
    monkeypatch.setattr(Plane, "fail_at", None)
    return Device(
        1,
        lambda source: Plane.load(source, cache_dir=p4rt_cache),
        ports={1: "if1", 2: "if2"},
    )


def commit(device: Device) -> Any:
    """Commit the program and return its data plane."""
    device.set_config(Action.VERIFY_AND_COMMIT, config(), lambda: None)
    assert device.running is not None
    return device.running.dataplane


def test_ports_move_to_the_new_pipeline(device: Device) -> None:
    """The new data plane gets the ports, even from one that had died; the old one is closed."""
    old = commit(device)
    assert old.attached == PORTS
    new = commit(device)
    assert old.attached == ()
    assert new.attached == PORTS
    assert new.running
    with pytest.raises(Exception, match="closed"):
        old.table_entries("SwitchIngress.l2")
    device.close()
    assert new.attached == ()


def test_failed_hand_over_gives_the_ports_back(device: Device) -> None:
    """If the new data plane cannot have a port, the old one goes on with all of them."""
    old = commit(device)
    Plane.fail_at = 2
    with pytest.raises(PortError, match="if2"):
        device.set_config(Action.VERIFY_AND_COMMIT, config(), lambda: None)
    assert device.running is not None
    assert device.running.dataplane is old
    assert old.attached == PORTS
    assert old.running


def test_caller_that_gave_up_commits_nothing(device: Device) -> None:
    """A pipeline that took longer than its caller's patience is not committed behind its back."""
    arbitration = Arbitration(1, device.wait_for_writes)
    service = P4RuntimeService(device, arbitration)
    arbitration.update(
        Controller(lambda _: None),
        p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1)),
    )
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=1,
        election_id=U128.encode(1),
        action=Action.VERIFY_AND_COMMIT,
        config=config(),
    )
    with pytest.raises(Aborted) as caught:
        service.SetForwardingPipelineConfig(request, Context(active=False))
    assert caught.value.code is grpc.StatusCode.CANCELLED
    assert device.running is None
    service.SetForwardingPipelineConfig(request, Context())
    assert device.running is not None


def test_primary_that_lost_its_place_commits_nothing(device: Device) -> None:
    """Who stops being primary while its program compiles is refused."""

    def check() -> None:
        raise PermissionError("not primary any more")

    with pytest.raises(PermissionError):
        device.set_config(Action.VERIFY_AND_COMMIT, config(), check)
    assert device.running is None


def test_controller_that_does_not_read(device: Device) -> None:
    """Packets beyond its full queue are dropped; a notice that does not fit ends its stream."""
    arbitration = Arbitration(1, device.wait_for_writes)
    context = Context()
    stream = Stream(device, arbitration, context)
    arbitration.update(
        stream.controller,
        p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1)),
    )
    packet = p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=b"x"))
    for _ in range(MAX_QUEUED + 10):
        stream.controller.send(packet)
    assert not context.cancelled
    arbitration.update(
        Controller(lambda _: None),
        p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(2)),
    )
    assert context.cancelled
