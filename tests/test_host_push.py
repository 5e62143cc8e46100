"""The hot push against a scripted network."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack import push as module
from host_stack.codec import Codec, Records, fill_header
from host_stack.errors import PushFailed
from host_stack.push import HotPush
from host_stack.rtt import RttEstimator
from host_stack.transport import Received, ipv4
from host_stack.wire import Flag, Op
from tests.host_support import LAYOUT, Datagram, ScriptedTransport, VirtualTime

SERVER = "10.0.0.1"
JOB, RANK, TAG = 7, 3, 5 << 20 | 9
HEADER = struct.Struct(">BBHHHII")
CODEC = Codec(LAYOUT)


@pytest.fixture(scope="module", autouse=True)
def virtual_time() -> Iterator[VirtualTime]:
    """Time-outs take no time, and no load of the machine makes a deadline pass."""
    clock = VirtualTime()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "time", clock)
        patched.setattr(module, "wait_readable", clock.wait_readable)
        yield clock


def fast_rtt() -> RttEstimator:
    """Time-outs short enough for tests."""
    return RttEstimator(min_rto_s=0.002, max_rto_s=0.01, rto_s=0.005)


def grads(count: int) -> Records:
    """GRAD packets with headers but without contents that matter."""
    batch = np.zeros(count, CODEC.grad)
    fill_header(batch["header"], Op.GRAD, job=JOB, worker=RANK, tag=TAG)
    return batch


def seq_of(packet: bytes) -> int:
    """The sequence number of a GRAD."""
    return int.from_bytes(packet[12:16], "big")


def ack(seq: int, flags: Flag = Flag.NONE, **changed: int) -> bytes:
    """An ACK for a packet of this push, with some fields changed."""
    fields = {"version_op": 0x12, "job": JOB, "worker": RANK, "tag": TAG} | changed
    return HEADER.pack(
        fields["version_op"], flags, fields["job"], fields["worker"], 0, fields["tag"], seq
    )


def answering(answer: Callable[[int, int], Iterable[Datagram]]) -> ScriptedTransport:
    """A transport whose script is given (seq, number of the attempt, from 1)."""
    attempts: Counter[int] = Counter()

    def script(packet: bytes, destination: int) -> Iterable[Datagram]:
        assert destination == ipv4(SERVER)
        assert len(packet) == CODEC.grad.itemsize
        attempts[seq_of(packet)] += 1
        return answer(seq_of(packet), attempts[seq_of(packet)])

    return ScriptedTransport(script)


def push_over(transport: ScriptedTransport, **changed: object) -> HotPush:
    """A push to the server."""
    options = {"window": 256, "rtt": fast_rtt()} | changed
    return HotPush(transport, ipv4(SERVER), **options)  # type: ignore[arg-type]


def test_every_packet_is_sent_once_when_nothing_is_lost() -> None:
    """Consecutive sequence numbers from 1, no retransmission, none by the server."""
    transport = answering(lambda seq, _: [(SERVER, ack(seq))])
    push = push_over(transport, rtt=RttEstimator())
    by_server = push.run(grads(300), 5.0)
    assert [seq_of(packet) for packet in transport.sent] == list(range(1, 301))
    assert by_server.tolist() == [False] * 300
    assert (push.stats.packets, push.stats.retransmissions) == (300, 0)


def test_sequence_numbers_go_on_in_the_next_push() -> None:
    """The duplicate check spans rounds, so numbers are not used again."""
    transport = answering(lambda seq, _: [(SERVER, ack(seq))])
    push = push_over(transport)
    push.run(grads(3), 5.0)
    push.run(grads(2), 5.0)
    assert [seq_of(packet) for packet in transport.sent] == [1, 2, 3, 4, 5]


def test_an_empty_push() -> None:
    """Nothing to push is done at once."""
    transport = answering(lambda _seq, _: [])
    assert len(push_over(transport).run(grads(0), 5.0)) == 0
    assert transport.sent == []


def test_sequence_numbers_wrap() -> None:
    """2^32 - 1 is followed by 0, and ACKs on both sides of the wrap are understood."""
    lost = {2**32 - 1, 1}
    transport = answering(
        lambda seq, attempt: [] if seq in lost and attempt == 1 else [(SERVER, ack(seq))]
    )
    push = push_over(transport, next_seq=2**32 - 3)
    push.run(grads(6), 5.0)
    assert {seq_of(packet) for packet in transport.sent} == {
        2**32 - 3, 2**32 - 2, 2**32 - 1, 0, 1, 2,
    }  # fmt: skip
    assert push.next_seq == 3


def test_loss_is_repaired_by_the_same_packet() -> None:
    """What is not acknowledged is sent again, byte for byte, and counted."""
    transport = answering(
        lambda seq, attempt: [] if seq % 5 == 0 and attempt == 1 else [(SERVER, ack(seq))]
    )
    push = push_over(transport)
    batch = grads(40)
    batch["lane"]["grad"][:, 0] = np.arange(40)
    push.run(batch, 5.0)
    copies: dict[int, set[bytes]] = {}
    for packet in transport.sent:
        copies.setdefault(seq_of(packet), set()).add(packet)
    assert all(len(different) == 1 for different in copies.values())
    assert push.stats.retransmissions == len(transport.sent) - 40 >= 8


def test_who_acknowledged() -> None:
    """Packets that the server took are told from those that the switch took."""
    transport = answering(
        lambda seq, _: [(SERVER, ack(seq, Flag.BY_SERVER if seq % 3 == 0 else Flag.NONE))]
    )
    push = push_over(transport)
    by_server = push.run(grads(9), 5.0)
    assert np.flatnonzero(by_server).tolist() == [2, 5, 8]
    assert push.stats.by_server == 3


def test_a_duplicate_ack_counts_as_an_acknowledgement() -> None:
    """The ACK that says “counted before” follows a lost ACK: the packet is safe."""
    transport = answering(
        lambda seq, attempt: [(SERVER, ack(seq, Flag.DUPLICATE))] if attempt > 1 else []
    )
    push = push_over(transport)
    push.run(grads(4), 5.0)
    assert push.stats.duplicates >= 4


@settings(max_examples=30, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    window=st.integers(1, 12),
    loss=st.floats(0, 0.5),
    count=st.integers(1, 60),
)
def test_the_window_holds_under_any_loss(seed: int, window: int, loss: float, count: int) -> None:
    """No packet is sent W or more above the lowest one that is not acknowledged yet."""
    rng = np.random.default_rng(seed)
    acked: set[int] = set()

    def answer(seq: int, _attempt: int) -> list[Datagram]:
        lowest = next(i for i in range(1, count + 2) if i not in acked)
        assert seq < lowest + window, "beyond the window"
        if rng.random() < loss:
            return []
        acked.add(seq)
        return [(SERVER, ack(seq))] * int(rng.integers(1, 3))

    push = push_over(answering(answer), window=window)
    push.run(grads(count), 5.0)
    assert acked == set(range(1, count + 1))
    assert push.congestion.window <= window


def test_the_window_waits_for_its_first_packet() -> None:
    """With packet 0 lost again and again, no more than W - 1 others are sent meanwhile."""
    window, before = 8, []

    def answer(seq: int, attempt: int) -> list[Datagram]:
        if seq == 1 and attempt < 4:
            return []
        if seq == 1:
            before.extend({seq_of(packet) for packet in transport.sent})
        return [(SERVER, ack(seq))]

    transport = answering(answer)
    push_over(transport, window=window).run(grads(30), 5.0)
    assert sorted(before) == list(range(1, window + 1))


class RecordingRtt(RttEstimator):
    """Keeps how many packets each measurement was of."""

    def __init__(self) -> None:
        super().__init__(min_rto_s=0.002, max_rto_s=0.01, rto_s=0.005)
        self.measured: list[int] = []

    def sample(self, samples_s: np.ndarray) -> None:
        """Count, then estimate."""
        self.measured.append(len(samples_s))
        super().sample(samples_s)


def test_karn() -> None:
    """A packet that was sent twice is never measured: its ACK may answer either copy."""
    rtt = RecordingRtt()
    transport = answering(lambda seq, attempt: [(SERVER, ack(seq))] if attempt > 1 else [])
    push_over(transport, rtt=rtt).run(grads(1), 5.0)
    assert sum(rtt.measured) == 0
    assert rtt.srtt_s is None
    push_over(answering(lambda seq, _: [(SERVER, ack(seq))]), rtt=rtt).run(grads(1), 5.0)
    assert sum(rtt.measured) == 1


def test_loss_halves_the_congestion_window() -> None:
    """A time-out halves the window; ACKs let it grow by a packet per window from there."""
    transport = answering(lambda seq, attempt: [(SERVER, ack(seq))] if attempt > 1 else [])
    push = push_over(transport)
    push.run(grads(1), 5.0)
    assert push.congestion.threshold == 16
    assert 16 <= push.congestion.window <= 17


FOREIGN = {
    "another source": lambda seq: ("10.0.0.2", ack(seq)),
    "another job": lambda seq: (SERVER, ack(seq, job=JOB + 1)),
    "another worker": lambda seq: (SERVER, ack(seq, worker=RANK + 1)),
    "another round": lambda seq: (SERVER, ack(seq, tag=TAG + 1)),
    "another epoch": lambda seq: (SERVER, ack(seq, tag=TAG + (1 << 20))),
    "another operation": lambda seq: (SERVER, ack(seq, version_op=0x15)),
    "another version": lambda seq: (SERVER, ack(seq, version_op=0x22)),
    "truncated": lambda seq: (SERVER, ack(seq)[:15]),
    "too long": lambda seq: (SERVER, ack(seq) + b"\0"),
    "empty": lambda _seq: (SERVER, b""),
    "a sequence number not sent yet": lambda seq: (SERVER, ack(seq + 1)),
    "a sequence number of an earlier push": lambda seq: (SERVER, ack(seq - 1)),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_ack_of_this_push_is_counted_and_ignored(kind: str) -> None:
    """A datagram that differs in one field acknowledges nothing."""
    transport = answering(lambda seq, _: [FOREIGN[kind](seq)])
    push = push_over(transport, next_seq=100)
    with pytest.raises(PushFailed):
        push.run(grads(1), 0.03)
    assert push.stats.foreign == len(transport.sent)


def test_no_acknowledgement_at_all() -> None:
    """The error says how many packets are missing, which is the first, and what to check."""
    transport = answering(lambda seq, _: [(SERVER, ack(seq))] if seq in (1, 2, 4) else [])
    push = push_over(transport)
    with pytest.raises(PushFailed) as caught:
        push.run(grads(5), 0.05)
    message = str(caught.value)
    assert message.startswith("2 of 5 packets of the push are not acknowledged after 0.05 s")
    assert "first: packet 2" in message
    assert "check that the switch and the server run" in message


def test_progress_extends_the_deadline(virtual_time: VirtualTime) -> None:
    """The deadline counts from the last progress, not from the start of the push."""
    transport = answering(lambda seq, attempt: [(SERVER, ack(seq))] if attempt > 2 else [])
    started_s = virtual_time.now_s
    # A window of one: every packet times out twice, one after the other.
    push_over(transport, window=1).run(grads(20), 0.1)
    assert virtual_time.now_s > started_s + 0.1


def test_what_is_no_acknowledgement_is_handed_on() -> None:
    """An UPDATE that comes in the middle of a push is not lost."""
    update = b"\x15" + bytes(30)
    seen: list[bytes] = []

    def answer(seq: int, _attempt: int) -> Iterable[Datagram]:
        return [(SERVER, update)] * (seq == 2) + [(SERVER, ack(seq))]

    def note(batch: Received) -> None:
        seen.extend(row[:n].tobytes() for row, n in zip(batch.data, batch.lengths, strict=True))

    push = push_over(answering(answer), on_other=note)
    assert not push.run(grads(3), 1.0).any()
    assert update in seen
