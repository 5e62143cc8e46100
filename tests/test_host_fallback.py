"""The fall-back path: every packet is counted once, under one reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack import hot_path
from host_stack.aggregator import SoftwareAggregator
from host_stack.codec import HEADER, Codec, fill_header
from host_stack.fallback import Fallback
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.layout import make_tag
from host_stack.placement import heat_based
from host_stack.transport import ipv4
from host_stack.wire import Flag, Op
from tests.host_support import LAYOUT, ScriptedTransport, VirtualTime, received

EPOCH, ROUND, NUM_KEYS, HOT = 5, 9, 100, 40
WORKERS = ("10.0.0.2", "10.0.0.3", "10.0.0.4")
JOB = Job(
    job=7, epoch=EPOCH, fraction_bits=40, num_keys=NUM_KEYS, layout=LAYOUT, workers=WORKERS,
    server="10.0.0.1", switch="10.0.0.254", group="239.19.52.2", scheduler=("10.0.0.1", 9700),
)  # fmt: skip
CODEC = Codec(LAYOUT)
PLACEMENT = heat_based(np.arange(10, 10 + HOT, dtype=np.uint64), LAYOUT)


@dataclass
class Bench:
    """A fall-back path with what it sums into and answers through."""

    transport: ScriptedTransport = field(default_factory=ScriptedTransport)
    on_switch: bool = False
    aggregators: list[SoftwareAggregator] = field(
        default_factory=lambda: [SoftwareAggregator(NUM_KEYS, JOB.fraction_bits) for _ in range(2)]
    )

    def __post_init__(self) -> None:
        self.fallback = Fallback(
            JOB,
            PLACEMENT,
            lambda round_: self.aggregators[round_ % 2],
            self.transport,
            CODEC,
            on_switch=self.on_switch,
        )

    def take(self, *datagrams: tuple[str, bytes], round_: int = ROUND) -> dict[str, int]:
        """Hand datagrams over in one batch; return what was counted of them."""
        before = Counter(self.fallback.counters)
        batch = received(datagrams)
        self.fallback.take(batch, np.ones(len(batch), np.bool_), round_)
        return dict(self.fallback.counters - before)

    def acks(self) -> list[tuple[int, int, int]]:
        """(destination, seq, flags) of the ACKs sent so far."""
        found = []
        for packet, destination in zip(
            self.transport.sent, self.transport.destinations, strict=True
        ):
            assert len(packet) == 16
            assert packet[0] == 0x12
            found.append((destination, int.from_bytes(packet[12:], "big"), packet[1]))
        return found

    def sums(self, round_: int = ROUND) -> dict[int, float]:
        """End a round: sums by key."""
        keys, sums = self.aggregators[round_ % 2].take()
        return dict(zip(keys.tolist(), sums.tolist(), strict=True))


def grad(  # one parameter for each field
    cells: dict[tuple[int, int], float],
    seq: int = 1,
    rank: int = 0,
    *,
    epoch: int = EPOCH,
    round_: int = ROUND,
    job: int = 7,
    op: Op = Op.GRAD,
) -> bytes:
    """A GRAD with gradients at (lane, row)."""
    lanes = np.array([lane for lane, _ in cells], np.int64)
    rows = np.array([row for _, row in cells], np.int64)
    values = np.array(list(cells.values()), np.float32)
    batch = CODEC.encode_grads(np.zeros(len(cells), np.intp), lanes, rows, values, 1)
    fill_header(batch["header"], op, job=job, worker=rank, tag=make_tag(epoch, round_))
    batch["header"]["seq"] = seq
    return batch.tobytes()


BY_SERVER, DUPLICATE = int(Flag.BY_SERVER), int(Flag.BY_SERVER | Flag.DUPLICATE)


def test_a_packet_is_added_and_acknowledged() -> None:
    """Its gradients reach their keys, and the ACK goes to the worker's address."""
    bench = Bench()
    assert bench.take((WORKERS[1], grad({(3, 0): 0.5, (7, 1): -2.0}, 11, 1))) == {"added": 1}
    assert bench.acks() == [(ipv4(WORKERS[1]), 11, BY_SERVER)]
    assert bench.sums() == {13: 0.5, 49: -2.0}


def test_a_packet_without_gradients() -> None:
    """It is acknowledged as any other, and touches no key."""
    bench = Bench()
    assert bench.take((WORKERS[0], grad({}))) == {"added": 1}
    assert bench.acks() == [(ipv4(WORKERS[0]), 1, BY_SERVER)]
    assert bench.sums() == {}


def test_an_empty_batch() -> None:
    """Nothing in, nothing counted."""
    assert Bench().take() == {}


def test_datagrams_outside_of_the_mask_are_left_alone() -> None:
    """The drain hands over what is not its own; the rest is not touched."""
    bench = Bench()
    batch = received([(WORKERS[0], grad({(0, 0): 1.0}, seq)) for seq in (1, 2, 3)])
    bench.fallback.take(batch, np.array([False, True, False]), ROUND)
    assert [seq for _, seq, _ in bench.acks()] == [2]
    assert bench.sums() == {10: 1.0}


CELL = {(0, 0): 1.0}
REFUSED = {
    "empty": ("malformed", WORKERS[0], b""),
    "a header alone": ("malformed", WORKERS[0], grad(CELL)[:16]),
    "a byte short": ("malformed", WORKERS[0], grad(CELL)[:-1]),
    "a byte long": ("malformed", WORKERS[0], grad(CELL) + b"\0"),
    "another operation": ("malformed", WORKERS[0], grad(CELL, op=Op.UPDATE)),
    "another version": ("malformed", WORKERS[0], b"\x21" + grad(CELL)[1:]),
    "another job": ("malformed", WORKERS[0], grad(CELL, job=8)),
    "another worker's rank": ("foreign", WORKERS[0], grad(CELL, rank=1)),
    "no worker's rank": ("foreign", WORKERS[0], grad(CELL, rank=3)),
    "the server's rank": ("foreign", JOB.server, grad(CELL, rank=0xFFFF)),
    "no worker's address": ("foreign", "10.0.0.99", grad(CELL)),
    "an empty cell": ("unknown_cell", WORKERS[0], grad({(0, 0): 1.0, (8, 1): 1.0})),
    "a row far away": ("unknown_cell", WORKERS[0], grad({(0, 65535): 1.0})),
    "an older epoch": ("wrong_epoch", WORKERS[0], grad(CELL, epoch=EPOCH - 1)),
    "a later epoch": ("wrong_epoch", WORKERS[0], grad(CELL, epoch=EPOCH + 1)),
    "a later round": ("early", WORKERS[0], grad(CELL, round_=ROUND + 2)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_packets(kind: str) -> None:
    """Each is counted under its reason, adds nothing and is not acknowledged."""
    reason, source, payload = REFUSED[kind]
    bench = Bench()
    assert bench.take((source, payload)) == {reason: 1}
    assert bench.acks() == []
    assert bench.sums() == {}
    # Nothing of it is remembered either: the same sequence number counts when it is right.
    assert bench.take((WORKERS[0], grad(CELL))) == {"added": 1}


@pytest.mark.parametrize("round_", [0, ROUND - 1])
def test_stale_packets_are_acknowledged_as_duplicates(round_: int) -> None:
    """A packet of a committed round was counted: only its ACK was lost."""
    bench = Bench()
    assert bench.take((WORKERS[0], grad(CELL, 4, round_=round_))) == {"stale": 1}
    assert bench.acks() == [(ipv4(WORKERS[0]), 4, DUPLICATE)]
    assert bench.sums() == {}


def test_duplicates() -> None:
    """Copies in the same batch and later ones are acknowledged, and added once."""
    bench = Bench()
    packet = (WORKERS[0], grad(CELL, 4))
    assert bench.take(packet, packet, packet) == {"added": 1, "duplicate": 2}
    assert bench.take(packet) == {"duplicate": 1}
    flags = Counter(flags for _, _, flags in bench.acks())
    assert flags == {BY_SERVER: 1, DUPLICATE: 3}
    assert bench.sums() == {10: 1.0}


def test_workers_have_sequence_numbers_of_their_own() -> None:
    """The same seq of three workers is three packets; each gets its own ACK."""
    bench = Bench()
    batch = [(WORKERS[rank], grad({(0, 0): 2.0**-rank}, 6, rank)) for rank in (2, 0, 1)]
    assert bench.take(*batch) == {"added": 3}
    assert sorted(bench.acks()) == [(ipv4(address), 6, BY_SERVER) for address in WORKERS]
    assert bench.sums() == {10: 1.75}


def test_escapes_are_summed_in_the_order_of_ranks() -> None:
    """A gradient that fits no cell arrives here and is added exactly."""
    bench = Bench()
    values = {0: 2.0**120, 1: -(2.0**120), 2: 2.0**60}
    for rank in (2, 1, 0):
        bench.take((WORKERS[rank], grad({(0, 0): values[rank]}, 1, rank)))
    assert bench.sums() == {10: 2.0**60}


def test_a_new_round_takes_new_packets() -> None:
    """The sequence numbers go on, and the last round's packets become stale."""
    bench = Bench()
    old = (WORKERS[0], grad(CELL, 4))
    bench.take(old)
    bench.sums()
    new = (WORKERS[0], grad(CELL, 5, round_=ROUND + 1))
    assert bench.take(old, new, new, round_=ROUND + 1) == {
        "stale": 1,
        "added": 1,
        "duplicate": 1,
    }
    assert bench.sums(ROUND + 1) == {10: 1.0}


def test_the_next_round_is_open_too() -> None:
    """Packets of two rounds in one batch go into sums of their own."""
    bench = Bench()
    ahead = (WORKERS[0], grad({(0, 0): 5.0}, 5, round_=ROUND + 1))
    assert bench.take((WORKERS[0], grad(CELL, 4)), ahead) == {"added": 2}
    assert bench.sums(ROUND + 1) == {10: 5.0}
    assert bench.sums() == {10: 1.0}


def test_what_is_a_switch_s_to_add_is_left_to_it() -> None:
    """Its copies would be added there; only what no switch ever adds is the server's."""
    bench = Bench(on_switch=True)
    escaping = (WORKERS[1], grad({(0, 0): 1.0, (1, 0): 2.0**120}, 6, 1))
    ahead = (WORKERS[0], grad(CELL, 5, round_=ROUND + 1))
    batch = ((WORKERS[0], grad(CELL, 4)), escaping, ahead, (WORKERS[2], grad({}, 7, 2)))
    assert bench.take(*batch) == {"unopened": 3, "added": 1}
    assert bench.acks() == [(ipv4(WORKERS[1]), 6, BY_SERVER)]
    assert bench.take(escaping, round_=ROUND) == {"duplicate": 1}
    assert bench.take(ahead, round_=ROUND + 2) == {"stale": 1}
    assert bench.sums() == {10: 1.0, 11: 2.0**120}


def test_a_switch_that_missed_an_update_is_sent_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as a packet tells, and not for each packet."""
    clock = VirtualTime()
    monkeypatch.setattr(hot_path, "time", clock)
    transport = ScriptedTransport()
    aggregators = [SoftwareAggregator(NUM_KEYS, JOB.fraction_bits) for _ in range(2)]
    incarnation = Incarnation(EPOCH, 0, JOB.fraction_bits, 1, PLACEMENT, on_switch=True)
    hot = hot_path.HotPath(
        JOB, incarnation, lambda round_: aggregators[round_ % 2], transport, hot_path.HotStats()
    )
    for seq in range(3):
        batch = received([(WORKERS[0], grad(CELL, seq + 1))])
        hot.take(batch, np.ones(1, np.bool_), ROUND)
        clock.now_s += 0.6 * hot_path.OPEN_AGAIN_S
    tags = [np.frombuffer(data[: HEADER.itemsize], HEADER)[0]["tag"] for data in transport.sent]
    assert tags == [make_tag(EPOCH, ROUND - 1)] * 2
    assert transport.destinations == [ipv4(JOB.group)] * 2


packet_choice = st.sampled_from([*REFUSED, "stale", *(f"good{i}" for i in range(6))])


@settings(max_examples=100, derandomize=True, deadline=None)
@given(batches=st.lists(st.lists(packet_choice, max_size=12), max_size=4))
def test_every_packet_has_one_reason(batches: list[list[str]]) -> None:
    """Counters add up to the packets, and each good packet is in the sum exactly once."""
    bench = Bench()
    good = set()
    for batch in batches:
        datagrams = []
        for kind in batch:
            if kind in REFUSED:
                datagrams.append(REFUSED[kind][1:])
            elif kind == "stale":
                datagrams.append((WORKERS[2], grad(CELL, 99, 2, round_=ROUND - 1)))
            else:
                number = int(kind[4:])
                good.add(number)
                rank = number % 3
                cell = {(number, 0): float(number + 1)}
                datagrams.append((WORKERS[rank], grad(cell, 10 + number, rank)))
        counted = bench.take(*datagrams)
        assert sum(counted.values()) == len(datagrams)
    assert bench.fallback.counters["added"] == len(good)
    assert bench.sums() == {10 + number: float(number + 1) for number in good}


@settings(max_examples=50, derandomize=True, deadline=None)
@given(noise=st.lists(st.binary(max_size=250), max_size=8))
def test_rubbish(noise: list[bytes]) -> None:
    """Random bytes add nothing, are not answered, and are counted."""
    bench = Bench()
    counted = bench.take(*((WORKERS[0], payload) for payload in noise))
    assert sum(counted.values()) == len(noise)
    assert bench.acks() == []
    assert bench.sums() == {}
