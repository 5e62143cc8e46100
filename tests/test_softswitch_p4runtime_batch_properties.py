"""Random batches: all or nothing, and the same end as when each update is applied for itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4d, p4r, rpc_code

from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import (
    IDS,
    JSON_PATH,
    P4INFO,
    Client,
    action,
    batch_errors,
    exact,
    l2_entry,
)

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

ROLLBACK = p4r.WriteRequest.ROLLBACK_ON_ERROR
ATOMIC = p4r.WriteRequest.DATAPLANE_ATOMIC
TYPES = (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE)


class Updates:
    """Makes random updates of few keys, so that they meet often."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def batch(self) -> list[p4r.Update]:
        """Return a batch."""
        return [self._update() for _ in range(self._random.randrange(1, 9))]

    def _update(self) -> p4r.Update:
        make = self._random.choice(
            (self._l2, self._l2, self._route, self._acl, self._default, self._group, self._cell)
        )
        kind, entity = make()
        return p4r.Update(type=kind, entity=entity)

    def _byte(self, most: int = 4) -> bytes:
        return bytes([self._random.randrange(1, most)])

    def _kind(self) -> p4r.Update.Type.ValueType:
        return self._random.choice(TYPES)

    def _l2(self) -> tuple[p4r.Update.Type.ValueType, p4r.Entity]:
        entry = l2_entry(self._byte(), self._byte(), metadata=self._byte())
        if self._random.random() < 0.3:
            entry.counter_data.packet_count = self._random.randrange(9)
        return self._kind(), p4r.Entity(table_entry=entry)

    def _route(self) -> tuple[p4r.Update.Type.ValueType, p4r.Entity]:
        length = self._random.choice((0, 8, 16))
        match = []
        if length:
            value = (self._random.randrange(1, 3) << 24 | 1 << 16) >> (32 - length) << (32 - length)
            lpm = p4r.FieldMatch.LPM(value=value.to_bytes(4, "big"), prefix_len=length)
            match.append(p4r.FieldMatch(field_id=1, lpm=lpm))
        entry = p4r.TableEntry(
            table_id=IDS["routes"], match=match, action=action("route", b"\x0a", self._byte())
        )
        return self._kind(), p4r.Entity(table_entry=entry)

    def _acl(self) -> tuple[p4r.Update.Type.ValueType, p4r.Entity]:
        ternary = p4r.FieldMatch.Ternary(
            value=b"\x01", mask=self._random.choice((b"\x01", b"\xff"))
        )
        entry = p4r.TableEntry(
            table_id=IDS["acl"],
            match=[exact(1, b"\x01"), p4r.FieldMatch(field_id=2, ternary=ternary)],
            priority=self._random.randrange(1, 3),
            action=action("set_class", self._byte()),
        )
        return self._kind(), p4r.Entity(table_entry=entry)

    def _default(self) -> tuple[p4r.Update.Type.ValueType, p4r.Entity]:
        entry = p4r.TableEntry(table_id=IDS["stamp"], is_default_action=True)
        if self._random.random() < 0.7:
            entry.action.CopyFrom(action("set_class", self._byte()))
        return p4r.Update.MODIFY, p4r.Entity(table_entry=entry)

    def _group(self) -> tuple[p4r.Update.Type.ValueType, p4r.Entity]:
        group = p4r.MulticastGroupEntry(
            multicast_group_id=self._random.randrange(1, 3),
            replicas=[p4r.Replica(port=self._byte(), instance=0)],
        )
        pre = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
        return self._kind(), p4r.Entity(packet_replication_engine_entry=pre)

    def _cell(self) -> tuple[p4r.Update.Type.ValueType, p4r.Entity]:
        entry = p4r.RegisterEntry(
            register_id=IDS["last_source"], data=p4d.P4Data(bitstring=self._byte())
        )
        if self._random.random() < 0.8:
            entry.index.index = self._random.randrange(9)  # one beyond the end
        return p4r.Update.MODIFY, p4r.Entity(register_entry=entry)


@pytest.fixture
def pair(p4rt_cache: Path) -> Iterator[tuple[Client, Client]]:
    """Yield the primaries of two switches that run the program."""
    with (
        P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache) as one,
        P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache) as other,
    ):
        for server in (one, other):
            server.commit(P4INFO, JSON_PATH.read_bytes())
        with Client(one.address) as first, Client(other.address) as second:
            first.arbitrate()
            second.arbitrate()
            yield first, second


def state(client: Client) -> list[bytes]:
    """Read everything, in an order of its own."""
    queries = (
        p4r.Entity(table_entry=p4r.TableEntry()),
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()),
        p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["stamp"], is_default_action=True)),
        p4r.Entity(register_entry=p4r.RegisterEntry()),
        p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
    )
    return sorted(item.SerializeToString(deterministic=True) for item in client.read(*queries))


@pytest.mark.parametrize(("mode", "seed"), [(ROLLBACK, 1), (ATOMIC, 2)])
def test_random_batches(pair: tuple[Client, Client], mode: int, seed: int) -> None:
    """A batch that fails leaves no trace; one that does not ends like its updates one by one."""
    first, second = pair
    updates = Updates(seed)
    applied = failed = 0
    before = state(first)
    for _ in range(150):
        batch = updates.batch()
        try:
            first.write(*batch, atomicity=mode)
        except grpc.RpcError as error:
            codes = [item.canonical_code for item in batch_errors(error)]
            assert len([code for code in codes if code != rpc_code.ABORTED]) == 1
            assert rpc_code.INTERNAL not in codes
            assert state(first) == before
            failed += 1
            continue
        for update in batch:
            second.write(update)
        before = state(first)
        assert before == state(second)
        applied += 1
    assert applied > 20
    assert failed > 20
