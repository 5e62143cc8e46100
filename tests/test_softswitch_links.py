"""Faults of links in the engine, in virtual time, against a model of what they promise."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.dataplane import DataPlane
from softswitch.errors import InvalidArgument, SoftSwitchError
from softswitch.faults import Direction, LinkFaults
from softswitch.links import LinkStats
from tests.link_model import LinkModel, fate
from tests.softswitch_port_session import swap_program

pytestmark = pytest.mark.compiler

RX, TX = Direction.RX, Direction.TX
SECOND_NS = 10**9


@pytest.fixture(name="switch")
def swap_switch() -> Iterator[DataPlane]:
    """A switch that sends what comes by port 0 out of port 1, and the other way round."""
    with DataPlane.load(swap_program()) as switch:
        yield switch


def frame(k: int, size: int = 64) -> bytes:
    """A packet with its number."""
    return b"\x02" + k.to_bytes(4, "big") + bytes(size - 5)


def numbers(packets: list[tuple[int, bytes]]) -> list[int]:
    """The numbers in packets."""
    return [int.from_bytes(data[1:5], "big") for _, data in packets]


def send(
    switch: DataPlane, count: int, gap_ns: int = 0, size: int = 64, port: int = 0
) -> list[int]:
    """Send packets 0 … count - 1 and wait long; return the numbers in the order of leaving."""
    left = []
    for k in range(count):
        left += switch.inject(port, frame(k, size))
        left += switch.advance(gap_ns)
    return numbers(left + switch.advance(1000 * SECOND_NS))


def test_no_faults_have_no_effect(switch: DataPlane) -> None:
    """Packets pass at once and unchanged, before and after faults; nothing is counted as lost."""
    plain = switch.inject(0, frame(1))
    assert plain == [(1, frame(1))]
    assert switch.link_stats() == {}
    for direction in Direction:
        for port in (0, 1):
            switch.set_link_faults(port, direction, LinkFaults())
    assert switch.inject(0, frame(1)) == plain
    assert not any(switch.drop_stats().values())
    assert switch.link_stats()[0, RX] == LinkStats(1, 1, 0, 0, 0, 0, 0, 0, 0)
    assert switch.link_stats()[1, RX].offered == 0


def test_what_waits_is_told(switch: DataPlane) -> None:
    """Packets that a link delays are on it until they leave."""
    switch.set_link_faults(1, TX, LinkFaults(delay_s=0.01))
    for number in range(3):
        assert switch.inject(0, frame(number)) == []
    assert switch.link_stats()[1, TX].waiting == 3
    assert len(switch.advance(SECOND_NS)) == 3
    assert switch.link_stats()[1, TX].waiting == 0


@pytest.mark.parametrize("direction", list(Direction))
def test_the_fate_of_packet_k_is_a_function_of_seed_and_k(
    switch: DataPlane, direction: Direction
) -> None:
    """Exactly the packets that the model names are lost and doubled, at any time and again."""
    faults = LinkFaults(loss=0.05, duplicate=0.02, seed=7)
    port = 0 if direction is RX else 1
    fates = [fate(faults, port, direction, k) for k in range(5000)]
    expected = [k for k, f in enumerate(fates) if not f.lost for _ in range(1 + f.twice)]
    for gap_ns in (0, 1_000_000):
        switch.set_link_faults(port, direction, faults)
        assert send(switch, 5000, gap_ns) == expected
        stats = switch.link_stats()[port, direction]
        lost = sum(f.lost for f in fates)
        doubled = sum(f.twice and not f.lost for f in fates)
        assert stats == LinkStats(5000, 5000 - lost + doubled, lost, doubled, 0, 0, 0, 0, 0)
        assert 200 < lost < 300
        assert 70 < doubled < 130
    assert switch.drop_stats()["fault_loss"] == 2 * lost


def test_seed_port_and_direction_make_different_faults(switch: DataPlane) -> None:
    """Links that share a seed, and seeds on one link, are independent of each other."""
    seen = set()
    for seed in (1, 2):
        for port, direction, source in ((0, RX, 0), (1, TX, 0), (1, RX, 1), (0, TX, 1)):
            switch.set_link_faults(port, direction, LinkFaults(loss=0.5, seed=seed))
            seen.add(tuple(send(switch, 64, port=source)))
            switch.set_link_faults(port, direction, LinkFaults())
    assert len(seen) == 8


def test_probabilities_of_zero_and_one(switch: DataPlane) -> None:
    """Certain faults hit every packet."""
    switch.set_link_faults(1, TX, LinkFaults(loss=1.0))
    assert send(switch, 100) == []
    switch.set_link_faults(1, TX, LinkFaults(duplicate=1.0))
    assert send(switch, 3) == [0, 0, 1, 1, 2, 2]


def test_reordering_has_a_bounded_distance_and_loses_nothing(switch: DataPlane) -> None:
    """A held packet leaves after 1 to `depth` further ones; the others keep their order."""
    faults = LinkFaults(reorder=0.2, reorder_depth=5, seed=3)
    switch.set_link_faults(1, TX, faults)
    left = send(switch, 2000)
    assert sorted(left) == list(range(2000))
    held = {k: f.held_for for k in range(2000) if (f := fate(faults, 1, TX, k)).held_for}
    assert switch.link_stats()[1, TX].reordered == len(held)
    assert set(held.values()) == {1, 2, 3, 4, 5}
    others = [k for k in left if k not in held]
    assert others == sorted(others)
    for k, distance in held.items():
        passed = [n for n in left[: left.index(k)] if n > k]
        assert all(n <= k + distance for n in passed)


def test_a_held_packet_does_not_wait_for_ever(switch: DataPlane) -> None:
    """When nothing follows it leaves after `hold`."""
    switch.set_link_faults(1, TX, LinkFaults(reorder=1.0, hold_s=0.003))
    assert switch.inject(0, frame(0)) == []
    assert switch.advance(2_999_999) == []
    assert numbers(switch.advance(1)) == [0]


def test_delay_is_exact_and_jitter_keeps_the_order(switch: DataPlane) -> None:
    """Packets leave after the delay, to the nanosecond; jitter alone never reorders."""
    switch.set_link_faults(1, TX, LinkFaults(delay_s=0.005))
    assert switch.inject(0, frame(0)) == []
    assert switch.advance(4_999_999) == []
    assert numbers(switch.advance(1)) == [0]
    switch.set_link_faults(
        1, TX, LinkFaults(delay_s=0.005, jitter_s=0.005, spike=0.1, spike_delay_s=0.1, seed=1)
    )
    assert send(switch, 1000, gap_ns=100_000) == list(range(1000))
    assert 70 < switch.link_stats()[1, TX].spiked < 130


def test_rate_is_kept_byte_by_byte(switch: DataPlane) -> None:
    """1,000 bytes at 8 Mbit/s take 1 ms; fractions of a nanosecond add up."""
    switch.set_link_faults(1, TX, LinkFaults(rate_bps=8_000_000))
    for k in range(3):
        assert switch.inject(0, frame(k, 1000)) == []
    assert switch.advance(999_999) == []
    assert numbers(switch.advance(1)) == [0]
    assert numbers(switch.advance(2_000_000)) == [1, 2]
    switch.set_link_faults(1, TX, LinkFaults(rate_bps=300_000_000_000, queue_bytes=1 << 20))
    for k in range(3000):
        switch.inject(0, frame(k, 300))  # 8 ns each
    assert len(switch.advance(12_000)) == 1500
    assert len(switch.advance(12_000)) == 1500


def test_the_queue_before_the_line_is_bounded_in_bytes(switch: DataPlane) -> None:
    """What does not fit is lost and counted; when the line has sent, there is room again."""
    switch.set_link_faults(1, TX, LinkFaults(rate_bps=8_000_000, queue_bytes=5000))
    for k in range(10):
        switch.inject(0, frame(k, 1000))
    assert numbers(switch.advance(1_000_000)) == [0]
    switch.inject(0, frame(10, 1000))
    assert numbers(switch.advance(SECOND_NS)) == [1, 2, 3, 4, 10]
    assert switch.link_stats()[1, TX].queue_full == 5
    assert switch.drop_stats()["fault_queue_full"] == 5


PARAMETERS = st.builds(
    LinkFaults,
    loss=st.sampled_from([0.0, 0.1]),
    duplicate=st.sampled_from([0.0, 0.2]),
    reorder=st.sampled_from([0.0, 0.3, 1.0]),
    reorder_depth=st.integers(1, 8),
    hold_s=st.sampled_from([0.001, 0.02]),
    delay_s=st.sampled_from([0.0, 0.002]),
    jitter_s=st.sampled_from([0.0, 0.001]),
    spike=st.sampled_from([0.0, 0.2]),
    spike_delay_s=st.just(0.01),
    rate_bps=st.sampled_from([0, 7_000_003, 10**9]),
    queue_bytes=st.sampled_from([900, 100_000]),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(faults=PARAMETERS, shape=st.integers(0, 1000), direction=st.sampled_from(list(Direction)))
def test_all_faults_together_are_those_of_the_model(
    shared: DataPlane, faults: LinkFaults, shape: int, direction: Direction
) -> None:
    """Every packet leaves at the nanosecond that the model names, in the same order."""
    port = 0 if direction is RX else 1
    shared.advance(1000 * SECOND_NS)
    shared.set_link_faults(port, direction, faults)
    model = LinkModel(faults, port, direction)
    random_ = random.Random(shape)
    now_ns, left = 0, []

    def wait(until_ns: int) -> None:
        nonlocal now_ns
        model.pass_time(until_ns)
        while now_ns < until_ns:
            moments = [t for t, _ in model.left if now_ns < t <= until_ns]
            step_ns = min(moments, default=until_ns) - now_ns
            now_ns += step_ns
            left.extend((now_ns, k) for k in numbers(shared.advance(step_ns)))

    for k in range(40):
        size = random_.randrange(60, 1500)
        model.offer(now_ns, k, size)
        left.extend((now_ns, n) for n in numbers(shared.inject(0, frame(k, size))))
        wait(now_ns + random_.choice([0, 0, 50_000, 3_000_000]))
    wait(now_ns + SECOND_NS)
    assert left == model.left
    assert shared.link_stats()[port, direction].queue_full == model.full
    shared.set_link_faults(port, direction, LinkFaults())


@pytest.fixture(name="shared", scope="module")
def shared_switch() -> Iterator[DataPlane]:
    """A switch for many examples."""
    with DataPlane.load(swap_program()) as switch:
        yield switch


def test_links_wait_independently(switch: DataPlane) -> None:
    """With many links at once each packet leaves in the order of its own delay."""
    for port in range(0, 60):
        delay_s = ((port ^ 1) * 7 % 60 + 1) / 1000
        switch.set_link_faults(port, TX, LinkFaults(delay_s=delay_s))
    for port in range(0, 60):
        assert switch.inject(port, frame(port)) == []
    for tick in range(1, 61):
        assert [n * 7 % 60 + 1 for n in numbers(switch.advance(1_000_000))] == [tick]


def test_a_cut_link_loses_what_comes_and_what_is_on_it(switch: DataPlane) -> None:
    """Both directions are dead until it is mended, and then go on with their faults."""
    switch.set_link_faults(1, TX, LinkFaults(delay_s=0.001))
    assert send(switch, 3) == [0, 1, 2]
    switch.inject(0, frame(7))
    switch.set_link_state(1, up=False)
    assert switch.link_faults()[1, TX] == LinkFaults(delay_s=0.001, down=True)
    assert send(switch, 4) == []
    assert send(switch, 2, port=1) == []
    assert switch.link_stats()[1, TX].cut == 5
    assert switch.link_stats()[1, RX].cut == 2
    assert switch.drop_stats()["fault_cut"] == 7
    switch.set_link_state(1, up=True)
    assert send(switch, 2) == [0, 1]
    assert switch.link_faults()[1, TX] == LinkFaults(delay_s=0.001)


def test_changed_faults_lose_nothing_that_waits(switch: DataPlane) -> None:
    """What waits keeps its time and its place; what was held back goes on."""
    switch.set_link_faults(1, TX, LinkFaults(delay_s=0.010, reorder=1.0))
    assert switch.inject(0, frame(0)) == []
    switch.set_link_faults(1, TX, LinkFaults())
    assert numbers(switch.advance(0)) == [0]
    switch.set_link_faults(1, TX, LinkFaults(delay_s=0.010))
    switch.inject(0, frame(3))
    switch.set_link_faults(1, TX, LinkFaults())
    assert switch.inject(0, frame(4)) == []
    assert numbers(switch.advance(10_000_000)) == [3, 4]


def test_waiting_packets_are_bounded(switch: DataPlane) -> None:
    """A link keeps 65,536 packets; the others are lost and counted."""
    switch.set_link_faults(1, TX, LinkFaults(duplicate=1.0, delay_s=1.0))
    for k in range(32768 + 5):
        switch.inject(0, frame(k, 60))
    assert switch.link_stats()[1, TX].overflow == 10
    assert switch.drop_stats()["fault_overflow"] == 10
    assert Counter(numbers(switch.advance(SECOND_NS))) == dict.fromkeys(range(32768), 2)


def test_measurements_leave_links_out(switch: DataPlane) -> None:
    """inject_batch measures the pipeline alone."""
    switch.set_link_faults(1, TX, LinkFaults(loss=1.0))
    assert switch.inject_batch(0, [frame(0)], rounds=3)[1] == 3
    assert switch.link_stats()[1, TX].offered == 0


def test_bad_links_are_refused(switch: DataPlane) -> None:
    """Ports, directions and times that do not exist."""
    with pytest.raises(InvalidArgument, match="0 to 510"):
        switch.set_link_faults(511, TX, LinkFaults())
    with pytest.raises(InvalidArgument, match="0 to 510"):
        switch.set_link_state(-1, up=True)
    with pytest.raises(InvalidArgument, match="rx and tx"):
        switch.set_link_faults(1, "up", LinkFaults())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="forward"):
        switch.advance(-1)
    switch.start()
    with pytest.raises(InvalidArgument, match="real clock"):
        switch.advance(1)
    switch.close()
    for use in (
        lambda: switch.set_link_faults(1, TX, LinkFaults()),
        lambda: switch.set_link_state(1, up=True),
        switch.link_stats,
        lambda: switch.advance(1),
    ):
        with pytest.raises(SoftSwitchError, match="closed"):
            use()
