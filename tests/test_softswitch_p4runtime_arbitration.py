"""Client arbitration: the rules alone, and over streams."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4r, rpc_code
from google.protobuf import any_pb2

from softswitch.p4runtime import batches, service
from softswitch.p4runtime.arbitration import MAX_ROLES, Arbitration, Controller
from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import IDS, TIMEOUT_S, Client, batch_errors, insert, l2_entry

pytest_plugins = ("tests.p4rt_fixtures",)

OK, BACKUP, NO_PRIMARY = rpc_code.OK, rpc_code.ALREADY_EXISTS, rpc_code.NOT_FOUND


class Peer:
    """A controller that keeps what it is told."""

    def __init__(self, arbitration: Arbitration) -> None:
        self.told: list[p4r.MasterArbitrationUpdate] = []
        self.controller = Controller(lambda response: self.told.append(response.arbitration))
        self._arbitration = arbitration

    def ask(self, election_id: int | None, **changes: object) -> None:
        """Send an arbitration update."""
        update = p4r.MasterArbitrationUpdate(**{"device_id": 1, **changes})
        if election_id is not None:
            update.election_id.CopyFrom(U128.encode(election_id))
        self._arbitration.update(self.controller, update)

    def leave(self) -> None:
        """End the stream."""
        self._arbitration.leave(self.controller)

    @property
    def status(self) -> tuple[int, int]:
        """(code, highest election id) of the last notice."""
        return self.told[-1].status.code, U128.decode(self.told[-1].election_id)


@pytest.fixture
def arbitration() -> Arbitration:
    """Return the arbitration of device 1, with no writes to wait for."""
    return Arbitration(1, lambda: None)


def may_write(arbitration: Arbitration, election_id: int | None, role: str = "") -> bool:
    """Tell whether a Write with this election id would be accepted."""
    try:
        given = None if election_id is None else U128.encode(election_id)
        arbitration.check_primary(role, given)
    except P4RuntimeError as error:
        assert error.code is grpc.StatusCode.PERMISSION_DENIED
        return False
    return True


def test_highest_election_id_is_primary(arbitration: Arbitration) -> None:
    """The first is primary until a higher one comes; each hears its own status."""
    low, high = Peer(arbitration), Peer(arbitration)
    low.ask(5)
    assert low.status == (OK, 5)
    assert may_write(arbitration, 5)
    high.ask(2**100)
    assert high.status == (OK, 2**100)
    assert low.status == (BACKUP, 2**100)
    assert may_write(arbitration, 2**100)
    assert not may_write(arbitration, 5)


def test_lower_election_id_is_backup_and_others_hear_nothing(arbitration: Arbitration) -> None:
    """A new backup is told so; the primary is left in peace."""
    first, second = Peer(arbitration), Peer(arbitration)
    first.ask(5)
    second.ask(4)
    assert second.status == (BACKUP, 5)
    assert len(first.told) == 1


def test_backup_takes_over_after_the_primary_leaves(arbitration: Arbitration) -> None:
    """Backups hear NOT_FOUND with the highest id; the one that takes it is the primary."""
    first, second, third = (Peer(arbitration) for _ in range(3))
    first.ask(9)
    second.ask(8)
    third.ask(7)
    first.leave()
    assert second.status == third.status == (NO_PRIMARY, 9)
    assert not may_write(arbitration, 9)
    second.ask(8)
    assert second.status == (NO_PRIMARY, 9)
    second.ask(9)
    assert second.status == (OK, 9)
    assert third.status == (BACKUP, 9)
    assert may_write(arbitration, 9)


def test_leaving_backup_changes_nothing(arbitration: Arbitration) -> None:
    """The primary stays primary and hears nothing; leaving twice is harmless."""
    first, second = Peer(arbitration), Peer(arbitration)
    first.ask(2)
    second.ask(1)
    second.leave()
    second.leave()
    assert len(first.told) == 1
    assert may_write(arbitration, 2)


def test_primary_can_step_down(arbitration: Arbitration) -> None:
    """A primary that lowers its id leaves nobody primary, and all hear of it."""
    first, second = Peer(arbitration), Peer(arbitration)
    first.ask(5)
    second.ask(4)
    first.ask(3)
    assert first.status == second.status == (NO_PRIMARY, 5)
    assert not may_write(arbitration, 3)


def test_primary_repeats_itself(arbitration: Arbitration) -> None:
    """The same id again keeps the primary, and it is told so."""
    peer = Peer(arbitration)
    peer.ask(5)
    peer.ask(5)
    assert [update.status.code for update in peer.told] == [OK, OK]
    assert may_write(arbitration, 5)


def test_unset_election_id_never_wins(arbitration: Arbitration) -> None:
    """Without an id a controller is a standby; id 0 beats it, and ids stay unset until then."""
    standby, zero = Peer(arbitration), Peer(arbitration)
    standby.ask(None)
    assert standby.told[-1].status.code == NO_PRIMARY
    assert not standby.told[-1].HasField("election_id")
    assert not may_write(arbitration, None)
    zero.ask(0)
    assert zero.status == (OK, 0)
    assert zero.told[-1].HasField("election_id")
    assert standby.status == (BACKUP, 0)


def test_roles_have_primaries_of_their_own(arbitration: Arbitration) -> None:
    """The same election id may be used in two roles."""
    plain, other = Peer(arbitration), Peer(arbitration)
    plain.ask(5)
    other.ask(5, role=p4r.Role(name="stats"))
    assert other.told[-1].role.name == "stats"
    assert not plain.told[-1].HasField("role")
    assert may_write(arbitration, 5)
    assert may_write(arbitration, 5, "stats")
    with pytest.raises(P4RuntimeError, match="role 'none' is unknown") as caught:
        arbitration.check_primary("none", U128.encode(5))
    assert caught.value.code is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"device_id": 2}, grpc.StatusCode.NOT_FOUND, "device 2 is unknown"),
        ({"role": p4r.Role(id=3)}, grpc.StatusCode.INVALID_ARGUMENT, "role.id is deprecated"),
    ],
)
def test_first_update_is_checked(
    arbitration: Arbitration, changes: dict[str, object], code: grpc.StatusCode, words: str
) -> None:
    """A bad first update ends the stream and leaves no trace."""
    peer = Peer(arbitration)
    with pytest.raises(P4RuntimeError, match=words) as caught:
        peer.ask(1, **changes)
    assert caught.value.code is code
    assert not may_write(arbitration, 1)


def test_role_config_is_remembered(arbitration: Arbitration) -> None:
    """A config of unknown type comes back in every notice: that of the last primary."""
    configs = []
    for number in (1, 2):
        config = any_pb2.Any()
        config.Pack(p4r.Uint128(low=number))
        configs.append(config)
    first, second = Peer(arbitration), Peer(arbitration)
    first.ask(2, role=p4r.Role(name="r", config=configs[0]))
    assert first.told[-1].role.config == configs[0]
    second.ask(1, role=p4r.Role(name="r", config=configs[1]))
    assert second.told[-1].role.config == configs[0]
    first.ask(2, role=p4r.Role(name="r", config=configs[1]))
    assert first.told[-1].role.config == second.told[-1].role.config == configs[1]
    assert second.status == (BACKUP, 2)
    first.leave()
    assert second.told[-1].role.config == configs[1]
    second.ask(2, role=p4r.Role(name="r"))
    assert not second.told[-1].role.HasField("config")


def test_updating_the_config_tells_all(arbitration: Arbitration) -> None:
    """An update of the primary without any change is notified like an election."""
    first, second = Peer(arbitration), Peer(arbitration)
    first.ask(2)
    second.ask(1)
    first.ask(2)
    assert first.status == (OK, 2)
    assert [update.status.code for update in second.told] == [BACKUP, BACKUP]


def test_used_election_id_of_a_live_controller(arbitration: Arbitration) -> None:
    """A controller that takes another's id is refused; the id is free once the other is gone."""
    first, second = Peer(arbitration), Peer(arbitration)
    first.ask(2)
    second.ask(1)
    with pytest.raises(P4RuntimeError, match="election id 2 is already used") as caught:
        second.ask(2)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    second.leave()
    first.leave()
    third = Peer(arbitration)
    third.ask(1)
    assert third.status == (NO_PRIMARY, 2)
    third.ask(2)
    assert third.status == (OK, 2)


@pytest.mark.parametrize("changes", [{"device_id": 2}, {"role": p4r.Role(name="other")}])
def test_device_and_role_of_a_stream_are_fixed(
    arbitration: Arbitration, changes: dict[str, object]
) -> None:
    """A live stream cannot change them."""
    peer = Peer(arbitration)
    peer.ask(1)
    with pytest.raises(P4RuntimeError) as caught:
        peer.ask(2, **changes)
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_roles_are_bounded(arbitration: Arbitration) -> None:
    """Roles cannot fill the memory."""
    for number in range(1, MAX_ROLES):
        Peer(arbitration).ask(1, role=p4r.Role(name=f"role {number}"))
    with pytest.raises(P4RuntimeError, match="at most") as caught:
        Peer(arbitration).ask(1, role=p4r.Role(name="one more"))
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_new_primary_waits_for_writes_of_the_former() -> None:
    """The former primary is refused at once; the new one is told when the last Write has ended."""
    written, waiting = threading.Event(), threading.Event()

    def wait_for_writes() -> None:
        waiting.set()
        assert written.wait(TIMEOUT_S)

    arbitration = Arbitration(1, wait_for_writes)
    former, new = Peer(arbitration), Peer(arbitration)
    written.set()
    former.ask(1)
    written.clear()
    waiting.clear()
    thread = threading.Thread(target=new.ask, args=(2,))
    thread.start()
    assert waiting.wait(TIMEOUT_S)
    assert former.status == (BACKUP, 2)
    assert new.told == []
    assert not may_write(arbitration, 1)
    assert not may_write(arbitration, 2)
    written.set()
    thread.join(TIMEOUT_S)
    assert new.status == (OK, 2)


def test_streams_see_the_primary_go(empty_switch: P4RuntimeServer) -> None:
    """Over gRPC: breaking the primary's stream tells the backup, which takes over."""
    first, second = Client(empty_switch.address, 10), Client(empty_switch.address, 9)
    with second:
        with first:
            assert first.arbitrate().status.code == OK
            assert second.arbitrate().status.code == BACKUP
        notice = second.receive().arbitration
        assert notice.status.code == NO_PRIMARY
        second.election_id = U128.decode(notice.election_id)
        assert second.arbitrate().status.code == OK


def test_used_election_id_ends_the_stream(empty_switch: P4RuntimeServer) -> None:
    """The second controller with an id is refused; the first goes on."""
    with Client(empty_switch.address, 3) as first, Client(empty_switch.address, 3) as second:
        first.arbitrate()
        with pytest.raises(grpc.RpcError) as caught:
            second.arbitrate()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "election id 3 is already used" in caught.value.details()
        assert first.arbitrate().status.code == OK


def test_unknown_device_ends_the_stream(empty_switch: P4RuntimeServer) -> None:
    """A wrong device id is NOT_FOUND and names the right one."""
    with Client(empty_switch.address) as client:
        with pytest.raises(grpc.RpcError) as caught:
            client.arbitrate(device_id=7)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert "this switch is 1" in caught.value.details()


@pytest.mark.compiler
def test_only_the_primary_writes(switch: P4RuntimeServer) -> None:
    """A backup's Write is refused; after a take-over so is the former primary's."""
    update = insert(table_entry=l2_entry(b"\x01"))
    with Client(switch.address, 2) as first, Client(switch.address, 1) as second:
        first.arbitrate()
        second.arbitrate()
        with pytest.raises(grpc.RpcError) as caught:
            second.write(update)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        first.write(update)
        second.election_id = 3
        assert second.arbitrate().status.code == OK
        with pytest.raises(grpc.RpcError) as caught:
            first.write(update)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        query = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))
        assert len(first.read(query)) == 1


@pytest.mark.compiler
def test_a_long_write_lets_others_have_their_turn(
    switch: P4RuntimeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who becomes primary meanwhile does not wait for its end; the rest of it is refused."""
    begun, demoted = threading.Event(), threading.Event()

    def write_part(*args: Any) -> Any:
        results = batches.write_batch(*args)
        if not begun.is_set():
            begun.set()
            assert demoted.wait(TIMEOUT_S)
        return results

    monkeypatch.setattr(service, "WRITE_TURN", 2)
    monkeypatch.setattr(service, "write_batch", write_part)
    updates = [insert(table_entry=l2_entry(bytes([n]))) for n in range(1, 6)]
    failed: list[grpc.RpcError] = []

    def write(client: Client) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            client.write(*updates)
        failed.append(caught.value)

    with Client(switch.address, 2) as first, Client(switch.address, 3) as second:
        first.arbitrate()
        writer = threading.Thread(target=write, args=(first,))
        writer.start()
        assert begun.wait(TIMEOUT_S)
        taker = threading.Thread(target=second.arbitrate)
        taker.start()
        assert first.receive().arbitration.status.code != OK
        demoted.set()
        writer.join(TIMEOUT_S)
        taker.join(TIMEOUT_S)
        codes = [detail.canonical_code for detail in batch_errors(failed[0])]
        assert codes == [OK, OK, *[rpc_code.PERMISSION_DENIED] * 3]
        query = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))
        assert len(second.read(query)) == 2
