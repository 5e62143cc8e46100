"""Draining against a scripted switch."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack import drain as module
from host_stack.codec import Codec, DrainedCells
from host_stack.drain import MAX_OUTSTANDING, MAX_RUN, MIN_TRIES, Drain, runs
from host_stack.errors import DrainFailed
from host_stack.job import Job
from host_stack.placement import Placement, SecondCells, next_masks
from host_stack.rtt import RttEstimator
from host_stack.transport import Received, ipv4
from host_stack.wire import DrainFormat
from tests.host_support import LAYOUT, Datagram, ScriptedTransport, VirtualTime
from tests.placements import pushes_of

SWITCH, SERVER = "10.0.0.254", "10.0.0.1"
TAG = 3 << 20 | 17
HEADER = struct.Struct(">BBHHHII")
PLACED = np.ones((LAYOUT.rows, LAYOUT.lanes), np.bool_)
JOB = Job(
    job=7, epoch=3, fraction_bits=40, num_keys=100, layout=LAYOUT, workers=("10.0.0.2",),
    server=SERVER, switch=SWITCH, group="239.19.52.2", scheduler=(SERVER, 9700),
)  # fmt: skip

Cells = dict[int, int]
"""Lane to the sum in it (digits) or to a whole number (float32), of one row."""


def contents(row: int) -> Cells:
    """What the scripted switch answers for a row; every eighth row is empty."""
    if row % 8 == 5:
        return {}
    return {lane: (row << 26) * (-1) ** lane + lane for lane in range(32) if (row + lane) % 3}


def drained(row: int, form: DrainFormat, cells: Cells, **changed: int) -> bytes:
    """A DRAINED of a row, with some header fields changed."""
    fields = {"version_op": 0x14, "job": 7, "tag": TAG} | changed
    body = struct.pack(">HBBI", row, fields.get("format", form), 0, sum(1 << i for i in cells))
    for lane in sorted(cells):
        if form is DrainFormat.DIGITS:
            sign, magnitude = (-1 if cells[lane] < 0 else 1), abs(cells[lane])
            body += struct.pack(">ii", sign * (magnitude >> 24), sign * (magnitude % 2**24))
        else:
            body += struct.pack(">f", cells[lane])
    head = HEADER.pack(fields["version_op"], 0, fields["job"], 0xFFFF, 0, fields["tag"], 0)
    return head + body


@pytest.fixture(scope="module", autouse=True)
def virtual_time() -> Iterator[VirtualTime]:
    """Time-outs take no time, and no load of the machine makes a deadline pass."""
    clock = VirtualTime()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "time", clock)
        patched.setattr(module, "wait_readable", clock.wait_readable)
        yield clock


def requested(packet: bytes) -> tuple[range, DrainFormat]:
    """The rows and the format that a DRAIN asks for."""
    row, rows, form, hops = struct.unpack(">HHBB", packet[16:])
    assert hops == 0
    return range(row, row + rows), DrainFormat(form)


def partners(packet: bytes) -> tuple[int, int]:
    """The second row and the mask of the first row that a DRAIN asks for."""
    second, mask = struct.unpack(">HH", packet[12:16])
    return second, mask


def answering(
    answer: Callable[[int, DrainFormat, int], Iterable[Datagram]],
) -> ScriptedTransport:
    """A transport whose script is given (row, format, number of the time it is asked for)."""
    asked: Counter[int] = Counter()

    def script(packet: bytes, destination: int) -> Iterable[Datagram]:
        assert destination == ipv4(SWITCH)
        assert packet[:12] == HEADER.pack(0x13, 0, 7, 0xFFFF, 0, TAG, 0)[:12]
        rows, form = requested(packet)
        second, mask = partners(packet)
        for step, row in enumerate(rows):
            asked[row] += 1
            word = struct.pack(">HH", second + step, mask) if mask else bytes(4)
            for source, data in answer(row, form, asked[row]):
                yield source, data[:12] + word + data[16:] if mask else data
            mask = int(next_masks(np.array([mask]), LAYOUT)[0])

    return ScriptedTransport(script)


def honest(row: int, form: DrainFormat, _attempt: int) -> list[Datagram]:
    """The right answer."""
    return [(SWITCH, drained(row, form, contents(row)))]


def fast_drain(transport: ScriptedTransport) -> Drain:
    """A drain with time-outs short enough for tests."""
    drain = Drain(JOB, transport, Codec(LAYOUT), PLACED)
    drain._rtt = RttEstimator(min_rto_s=0.002, max_rto_s=0.01, rto_s=0.005)
    return drain


class Others:
    """Keeps the datagrams that are no answers."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def __call__(self, received: Received, mask: np.ndarray) -> None:
        """Take the datagrams of the mask."""
        for at in np.flatnonzero(mask):
            self.payloads.append(received.data[at, : received.lengths[at]].tobytes())


def run(
    drain: Drain,
    rows: list[int],
    digits: list[bool] | None = None,
    deadline_s: float = 5.0,
    seconds: SecondCells | None = None,
) -> tuple[list[DrainedCells], Others]:
    """Drain rows, as float32 unless told otherwise."""
    others = Others()
    wanted = np.array(digits if digits is not None else [False] * len(rows), np.bool_)
    partner = SecondCells.none(len(rows)) if seconds is None else seconds
    return drain.run(TAG, np.array(rows, np.int64), partner, wanted, deadline_s, others), others


def cells_of(parts: list[DrainedCells]) -> dict[tuple[int, int], tuple[str, float]]:
    """(row, lane) to (format, value); asserts that no cell comes twice."""
    found: dict[tuple[int, int], tuple[str, float]] = {}
    for part in parts:
        assert (part.sums is None) != (part.values is None)
        values = part.sums if part.sums is not None else part.values
        assert values is not None
        for row, lane, value in zip(part.rows, part.lanes, values, strict=True):
            assert (int(row), int(lane)) not in found
            found[int(row), int(lane)] = "digits" if part.sums is not None else "float", value
    return found


def expected(rows: list[int], digits: list[bool]) -> dict[tuple[int, int], tuple[str, float]]:
    """What a drain of the rows must give."""
    return {
        (row, lane): ("digits", value) if as_digits else ("float", np.float32(value))
        for row, as_digits in zip(rows, digits, strict=True)
        for lane, value in contents(row).items()
    }


@settings(max_examples=30, derandomize=True, deadline=None)
@given(
    rows=st.sets(st.integers(0, 90), min_size=1),
    data=st.data(),
    loss=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_row_comes_once(rows: set[int], data: st.DataObject, loss: float, seed: int) -> None:
    """With lost requests and lost, doubled answers: each row once, in its format."""
    rng = np.random.default_rng(seed)

    def answer(row: int, form: DrainFormat, attempt: int) -> list[Datagram]:
        return [] if rng.random() < loss else honest(row, form, attempt) * rng.integers(1, 3)

    ordered = sorted(rows)
    digits = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    drain = fast_drain(answering(answer))
    parts, _ = run(drain, ordered, digits)
    assert cells_of(parts) == expected(ordered, digits)
    assert drain.stats.rows == len(rows)


def test_a_drain_of_several_switches() -> None:
    """It goes to the first one, names the others, and the last one's answers count."""
    sent = []

    def script(packet: bytes, destination: int) -> Iterable[Datagram]:
        sent.append((packet, destination))
        row, rows, form = struct.unpack(">HHB", packet[16:21])
        for each in range(row, row + rows):
            cells = contents(each)
            # A switch on the way does not answer; whoever does is not believed.
            yield "10.0.1.254", drained(each, DrainFormat(form), {lane: 1 for lane in cells})
            yield SWITCH, drained(each, DrainFormat(form), cells)

    chain = ("10.0.1.254", "10.0.2.254")
    drain = Drain(JOB, ScriptedTransport(script), Codec(LAYOUT), PLACED, chain=chain)
    parts, others = run(drain, [3, 4], [True, True])
    assert cells_of(parts) == expected([3, 4], [True, True])
    assert len(others.payloads) == 2
    ((packet, destination),) = sent
    assert destination == ipv4("10.0.1.254")
    assert packet[16:] == struct.pack(
        ">HHBBII", 3, 2, DrainFormat.DIGITS, 2, ipv4("10.0.2.254"), ipv4(SWITCH)
    )


def test_no_rows() -> None:
    """Nothing to drain asks for nothing."""
    transport = answering(honest)
    assert run(fast_drain(transport), [])[0] == []
    assert transport.sent == []


def test_runs_split_at_gaps_at_formats_and_at_their_limit() -> None:
    """One request for adjacent rows of one format, at most MAX_RUN of them."""
    rows = [*range(10, 10 + MAX_RUN + 5), 90, 91, 92, 95]
    digits = [False] * (MAX_RUN + 5) + [False, True, True, True]
    transport = answering(honest)
    run(fast_drain(transport), rows, digits)
    assert [requested(packet) for packet in transport.sent] == [
        (range(10, 10 + MAX_RUN), DrainFormat.FLOAT32),
        (range(10 + MAX_RUN, 10 + MAX_RUN + 5), DrainFormat.FLOAT32),
        (range(90, 91), DrainFormat.FLOAT32),
        (range(91, 93), DrainFormat.DIGITS),
        (range(95, 96), DrainFormat.DIGITS),
    ]


def test_runs_of_paired_rows() -> None:
    """Second rows follow each other and masks go round; anything else begins a new run."""
    pairs = {0: (100, 8), 1: (101, 16), 2: (102, 1), 3: (103, 1), 4: (105, 2), 6: (107, 8)}
    rows = [*range(6), 6, 7]
    seconds = SecondCells(
        np.array([pairs.get(row, (0, 0))[0] for row in rows]),
        np.array([pairs.get(row, (0, 0))[1] for row in rows]),
    )
    transport = answering(honest)
    parts, _ = run(Drain(JOB, transport, Codec(LAYOUT), PLACED), rows, seconds=seconds)
    assert cells_of(parts) == expected(rows, [False] * len(rows))
    asked = [(requested(packet)[0], *partners(packet)) for packet in transport.sent]
    assert asked == [
        (range(3), 100, 8),
        (range(3, 4), 103, 1),
        (range(4, 5), 105, 2),
        (range(5, 6), 0, 0),
        (range(6, 7), 107, 8),
        (range(7, 8), 0, 0),
    ]


@settings(max_examples=100, derandomize=True, deadline=None)
@given(case=pushes_of(), digits=st.integers(0, 2**16 - 1))
def test_runs_ask_for_what_is_wanted(case: tuple[Placement, np.ndarray], digits: int) -> None:
    """Rows, seconds and masks that a switch derives from the runs are those of the placement."""
    placement, index = case
    rows = placement.first_rows(placement.pack(index).rows)
    seconds, wanted = placement.second_cells(rows), (digits >> rows & 1).astype(np.bool_)
    begins, counts = runs(rows, seconds, wanted, placement.layout)
    found = []
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        mask = seconds.masks[begin : begin + 1]
        for step in range(count):
            second = int(seconds.rows[begin]) + step if mask[0] else 0
            found.append((int(rows[begin]) + step, second, int(mask[0]), bool(wanted[begin])))
            mask = next_masks(mask, placement.layout)
    told = zip(rows.tolist(), seconds.rows.tolist(), seconds.masks.tolist(), wanted, strict=True)
    assert found == [(row, second, mask, bool(form)) for row, second, mask, form in told]


def test_the_link_is_not_flooded() -> None:
    """At most MAX_OUTSTANDING rows are asked for and not answered."""
    total = 3 * MAX_OUTSTANDING
    transport = ScriptedTransport()
    waiting: list[tuple[int, DrainFormat]] = []
    receive = transport.receive

    def script(packet: bytes, _destination: int) -> list[Datagram]:
        rows, form = requested(packet)
        waiting.extend((row, form) for row in rows)
        assert len(waiting) <= MAX_OUTSTANDING
        return [] if len(waiting) < MAX_OUTSTANDING else [(SERVER, b"wake up")]

    def deliver() -> Received:
        transport.put([(SWITCH, drained(*each, contents(each[0]))) for each in waiting])
        waiting.clear()
        return receive()

    transport._answer = script
    transport.receive = deliver  # type: ignore[method-assign]
    drain = Drain(JOB, transport, Codec(LAYOUT), PLACED)
    parts, _ = run(drain, list(range(total)))
    assert len(cells_of(parts)) == len(expected(list(range(total)), [False] * total))
    assert drain.stats.asked_again == 0


def test_only_missing_rows_are_asked_again() -> None:
    """A row that was answered is not asked for again."""
    lost = {4, 9}
    transport = answering(
        lambda row, form, attempt: (
            [] if row in lost and attempt == 1 else honest(row, form, attempt)
        )
    )
    drain = fast_drain(transport)
    run(drain, list(range(12)))
    assert [requested(packet)[0] for packet in transport.sent] == [
        range(12),
        range(4, 5),
        range(9, 10),
    ]
    assert drain.stats.asked_again == 2
    assert drain.stats.requests == 3


WRONG = {
    "source": lambda row, form: (SERVER, drained(row, form, {1: 5})),
    "operation": lambda row, form: (SWITCH, drained(row, form, {1: 5}, version_op=0x13)),
    "version": lambda row, form: (SWITCH, drained(row, form, {1: 5}, version_op=0x24)),
    "job": lambda row, form: (SWITCH, drained(row, form, {1: 5}, job=8)),
    "round": lambda row, form: (SWITCH, drained(row, form, {1: 5}, tag=TAG - 1)),
    "format number": lambda row, form: (SWITCH, drained(row, form, {1: 5}, format=2)),
    "longer": lambda row, form: (SWITCH, drained(row, form, {1: 5}) + b"\0\0\0\0"),
    "shorter": lambda row, form: (SWITCH, drained(row, form, {1: 5})[:-1]),
    "prefix alone": lambda row, form: (SWITCH, drained(row, form, {1: 5})[:20]),
    "nothing": lambda _row, _form: (SWITCH, b""),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_answer_goes_to_the_caller(kind: str) -> None:
    """A wrong datagram before the right one adds nothing, and is handed on as it came."""
    transport = answering(
        lambda row, form, attempt: [WRONG[kind](row, form), *honest(row, form, attempt)]
    )
    drain = Drain(JOB, transport, Codec(LAYOUT), PLACED)
    parts, others = run(drain, [2, 3])
    assert cells_of(parts) == expected([2, 3], [False, False])
    assert others.payloads == [WRONG[kind](row, DrainFormat.FLOAT32)[1] for row in (2, 3)]


@pytest.mark.parametrize("row", [0, 1, 3, 5, 8191, 65535])
def test_rows_that_were_not_asked_for(row: int) -> None:
    """An answer for a row outside of the drain is not taken."""
    transport = answering(
        lambda asked, form, attempt: [
            (SWITCH, drained(row, form, {1: 5})),
            *honest(asked, form, attempt),
        ]
    )
    parts, _ = run(Drain(JOB, transport, Codec(LAYOUT), PLACED), [2, 4, 6])
    assert cells_of(parts) == expected([2, 4, 6], [False] * 3)


def test_a_cell_without_a_key_is_not_taken() -> None:
    """An answer that touches a cell of nobody is left aside and counted; the row comes again."""
    placed = PLACED.copy()
    placed[2, 31] = False
    transport = answering(
        lambda row, form, attempt: (
            ([(SWITCH, drained(row, form, {31: 5}))] if (row, attempt) == (2, 1) else [])
            or honest(row, form, attempt)
        )
    )
    drain = fast_drain(transport)
    drain._placed = placed
    parts, _ = run(drain, [2, 3])
    assert cells_of(parts) == expected([2, 3], [False, False])
    assert drain.stats.unknown_cells == 1


def test_an_answer_without_second_cells_is_not_taken() -> None:
    """What was summed from other cells than those asked for is asked for again."""
    seconds = SecondCells(np.array([9]), np.array([4]))

    def script(packet: bytes, _destination: int) -> list[Datagram]:
        answer = drained(2, requested(packet)[1], contents(2))
        words = [bytes(4), struct.pack(">HH", 9, 8), struct.pack(">HH", 8, 4), packet[12:16]]
        return [(SWITCH, answer[:12] + words[len(transport.sent) - 1] + answer[16:])]

    transport = ScriptedTransport(script)
    drain = fast_drain(transport)
    parts, _ = run(drain, [2], seconds=seconds)
    assert cells_of(parts) == expected([2], [False])
    assert drain.stats.asked_again == 3


def test_the_wrong_format_is_not_taken() -> None:
    """Finished float32 where digits are wanted would round twice; it is asked for again."""

    def answer(row: int, form: DrainFormat, attempt: int) -> list[Datagram]:
        other = DrainFormat.FLOAT32 if form is DrainFormat.DIGITS else DrainFormat.DIGITS
        return honest(row, other if attempt == 1 else form, attempt)

    drain = fast_drain(answering(answer))
    parts, _ = run(drain, [1, 2], [True, False])
    assert cells_of(parts) == expected([1, 2], [True, False])
    assert drain.stats.asked_again == 2


def test_an_answer_before_its_question() -> None:
    """A row that is not asked for yet is not taken, and does not upset the time-out."""
    rows = list(range(MAX_OUTSTANDING + 1))
    early = drained(rows[-1], DrainFormat.FLOAT32, {1: 5})
    transport = answering(
        lambda row, form, attempt: [
            *([(SWITCH, early)] if row == 0 else []),
            *honest(row, form, attempt),
        ]
    )
    drain = fast_drain(transport)
    parts, _ = run(drain, rows)
    assert cells_of(parts) == expected(rows, [False] * len(rows))
    assert drain._rtt.srtt_s is not None
    assert np.isfinite(drain._rtt.srtt_s)


def test_a_silent_switch() -> None:
    """The error names the switch, how many rows are missing and what to check."""
    transport = answering(lambda row, form, attempt: honest(row, form, attempt) if row < 3 else [])
    drain = fast_drain(transport)
    with pytest.raises(DrainFailed) as caught:
        run(drain, list(range(5)), deadline_s=0.05)
    assert str(caught.value).startswith(
        "switch 10.0.0.254 did not answer 2 of 5 rows within 0.05 s"
    )
    assert "job 7" in str(caught.value)
    assert drain.stats.asked_again > 0


def test_a_deadline_leaves_some_tries() -> None:
    """A switch that answers late is waited for, where few questions fit into the deadline."""
    late = MIN_TRIES - 2
    transport = answering(
        lambda row, form, attempt: honest(row, form, attempt) if attempt > late else []
    )
    parts, _ = run(fast_drain(transport), [3, 4], deadline_s=0.001)
    assert cells_of(parts) == expected([3, 4], [False] * 2)
    silent = answering(lambda _row, _form, _attempt: [])
    with pytest.raises(DrainFailed):
        run(fast_drain(silent), [3], deadline_s=0.001)
    assert len(silent.sent) == 1 + MIN_TRIES
