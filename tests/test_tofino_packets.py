"""libra_tna.p4 as logic, beside libra.p4 on the embedded switch: same packets, same results."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from controller.artifacts import Artifact
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.wire import REASONS_PER_SLOT, Flag, Op, Reason
from tests.memory_network import checksum, frame
from tests.switch_under_test import (
    EPOCH,
    GROUP,
    JOB,
    SERVER,
    SERVER_PORT,
    SLOT,
    SWITCH,
    F,
    SwitchUnderTest,
    embedded,
)
from tests.tofino_model import LANES, TofinoUnderTest

pytest_plugins = ("tests.tofino_model_fixtures",)

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

ETHERNET_BYTES = 60
"""A frame on a link has no less."""


@dataclass
class Pair:
    """Both programs, which get the same packets."""

    tofino: TofinoUnderTest
    v1model: SwitchUnderTest
    seq: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def check(self, name: str, port: int, raw: bytes) -> None:
        """Send a frame to both; what comes out, and what is counted, is the same."""
        padded = raw.ljust(ETHERNET_BYTES, b"\0")
        found = [self._sent(switch, port, padded) for switch in (self.tofino, self.v1model)]
        assert found[0] == found[1], name

    def _sent(
        self, switch: SwitchUnderTest, port: int, raw: bytes
    ) -> tuple[list[tuple[int, bytes]], dict[str, int]]:
        before = self._counted(switch)
        out = sorted((port, data[14:]) for port, data in switch.ports.inject(port, raw))
        after = self._counted(switch)
        return out, {key: after[key] - before[key] for key in after if after[key] != before[key]}

    def _counted(self, switch: SwitchUnderTest) -> dict[str, int]:
        if isinstance(switch, TofinoUnderTest):
            counted = {slot: switch.reasons(slot) for slot in (0, SLOT)}
        else:
            name, dataplane = "LibraIngress.reasons", switch.dataplane()
            counted = {
                slot: {
                    reason.name.lower(): dataplane.counter_read(
                        name, slot * REASONS_PER_SLOT + reason
                    )[0]
                    for reason in Reason
                }
                for slot in (0, SLOT)
            }
        return {
            f"{slot} {name}": count for slot in counted for name, count in counted[slot].items()
        }


@pytest.fixture
def v1model() -> Iterator[SwitchUnderTest]:
    """The embedded switch, with the same lanes."""
    with embedded(Artifact.load("libra16"), F) as made:
        yield made


def rewritten(raw: bytes, change: Callable[[bytearray], None]) -> bytes:
    """A frame with another IPv4 header, whose checksum is right."""
    header = bytearray(raw[14:34])
    change(header)
    header[10:12] = b"\0\0"
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    return raw[:14] + bytes(header) + raw[34:]


def total_len(raw: bytes, more: int) -> bytes:
    """A frame whose IPv4 header says another length."""

    def change(header: bytearray) -> None:
        header[2:4] = (int.from_bytes(header[2:4], "big") + more).to_bytes(2, "big")

    return rewritten(raw, change)


HERE, STRANGE, NOWHERE = "10.0.0.2", "10.0.0.3", "10.9.9.9"
"""The first worker's address, the second's, and one without a route."""


def libra(
    op: int, body: bytes = b"", *, job: int = JOB, worker: int = 0, round_: int = 0,
    epoch: int = EPOCH, seq: int = 0, version: int = 1, flags: int = 0,
) -> bytes:  # fmt: skip
    """A Libra packet, of which anything may be wrong."""
    fields = [(version << 4 | op, 1), (flags, 1), (job, 2), (worker, 2), (0, 2)]
    fields += [(make_tag(epoch, round_), 4), (seq, 4)]
    return b"".join(value.to_bytes(size, "big") for value, size in fields) + body


def cells(row: int = 3, value: float = 1.5, used: int = 0xFFFF) -> bytes:
    """What a GRAD has in its lanes; the last one differs from the others."""
    lane = row.to_bytes(2, "big")
    packed = [np.array([each], ">f4").tobytes() for each in [0.5] * (LANES - 1) + [value]]
    rows = [(0).to_bytes(2, "big")] * (LANES - 1) + [lane]
    lanes = zip(rows, packed, strict=True)
    return used.to_bytes(2, "big") + b"".join(row + grad for row, grad in lanes)


def drain(row: int = 0, rows: int = 1, format_: int = 0, hops: int = 0, **header: int) -> bytes:
    """A DRAIN of the server."""
    body = row.to_bytes(2, "big") + rows.to_bytes(2, "big") + bytes([format_, hops])
    return libra(Op.DRAIN, body, **{"worker": SERVER_RANK, **header})


def update(round_: int, **header: int) -> bytes:
    """An UPDATE of the server, without cells."""
    return libra(Op.UPDATE, bytes(4), round_=round_, **{"worker": SERVER_RANK, **header})


PROBE_BODY = bytes(12)
UDP_AT = 34
"""Where the UDP header of a frame begins."""


def odd_packets() -> Iterator[tuple[str, int, bytes]]:
    """Name, port and frame: one packet of each kind that the programs judge."""
    seq = iter(range(1, 1000))

    def grad(name: str, to: str = SERVER, port: int = 2, ttl: int = 64, **parts: int) -> tuple:
        own = {key: parts.pop(key) for key in ("row", "value", "used") if key in parts}
        payload = libra(Op.GRAD, cells(**own), **{"seq": next(seq), **parts})
        return name, port, frame(HERE, to, payload, ttl=ttl)

    first = grad("a GRAD")
    yield first
    yield "the same again", first[1], first[2]
    yield grad("of no job", job=9)
    yield grad("of another epoch", epoch=2)
    yield grad("of another worker", worker=1)
    yield grad("of a rank that nobody has", worker=77)
    yield grad("at another port", port=3)
    yield grad("to a worker", to="10.0.0.4")
    yield grad("to nowhere", to=NOWHERE)
    yield grad("of no job, to nowhere", to=NOWHERE, job=9)
    yield grad("to the switch", to=SWITCH)
    yield grad("outside of the block", row=64)
    yield grad("far outside of the block", row=0x8000)
    yield grad("infinite", value=np.inf)
    yield grad("infinite, outside of the block", value=np.inf, row=64)
    yield grad("infinite, where it is not used", value=np.inf, used=0x7FFF)
    yield grad("too large", value=2.0**30)
    yield grad("without lanes", used=0)
    yield grad("about to expire", ttl=1)
    yield grad("about to expire, of no job", ttl=1, job=9)
    yield grad("about to expire, infinite", ttl=1, value=np.inf)
    yield grad("of another version", version=2)
    for more in (-1, 1, 100):
        name, port, raw = grad(f"of which IPv4 says {more} more")
        yield name, port, total_len(raw, more)
        name, port, raw = grad(f"of no job, of which IPv4 says {more} more", job=9)
        yield name, port, total_len(raw, more)
    for length in (0, 1, 15, 16, 40, 16 + 2 + LANES * 6 - 1, 16 + 2 + LANES * 6 + 1):
        body = (libra(Op.GRAD, cells(), seq=next(seq)) + b"\0")[:length]
        yield f"a GRAD of {length} bytes", 2, frame(HERE, SERVER, body)
        if length >= 16:
            yield f"a GRAD of {length} bytes to the switch", 2, frame(HERE, SWITCH, body)
    yield from odd_headers(libra(Op.GRAD, cells(), seq=next(seq)))
    yield from odd_drains()
    yield from odd_others()


def odd_headers(payload: bytes) -> Iterator[tuple[str, int, bytes]]:
    """What is below Libra."""
    raw = frame(HERE, SERVER, payload)

    def changed(at: int, value: bytes) -> bytes:
        def change(header: bytearray) -> None:
            header[at : at + len(value)] = value

        return rewritten(raw, change)

    yield "the first fragment", 2, changed(6, b"\x20\x00")
    yield "a later fragment", 2, changed(6, b"\x00\x08")
    yield "another protocol", 2, changed(9, b"\x06")
    yield "options", 2, changed(0, b"\x46")
    yield "another version of IP", 2, changed(0, b"\x65")
    yield "a wrong checksum", 2, raw[:24] + bytes([raw[24] ^ 1]) + raw[25:]
    yield "another port of UDP", 2, raw[: UDP_AT + 2] + b"\x12\x34" + raw[UDP_AT + 4 :]
    yield "no IPv4", 2, raw[:12] + b"\x86\xdd" + raw[14:]
    yield "no IPv4 at all", 2, b"\xff" * 60
    for name, to, ttl in (("about to expire", SERVER, 1), ("to nowhere", NOWHERE, 64)):
        raw = frame(HERE, to, bytes(20), ttl=ttl)
        yield f"{name}, not Libra's", 2, raw[: UDP_AT + 2] + b"\0\7" + raw[UDP_AT + 4 :]
    yield "to nobody's group", 2, frame(HERE, "239.9.9.9", bytes(20))


def odd_drains() -> Iterator[tuple[str, int, bytes]]:
    """DRAINs of the server and of others."""

    def to(payload: bytes, destination: str = SWITCH, ttl: int = 64) -> tuple[int, bytes]:
        return SERVER_PORT, frame(SERVER, destination, payload, ttl=ttl)

    yield "a DRAIN", *to(drain())
    yield "a run of rows", *to(drain(0, 5))
    yield "a run over the end of the block", *to(drain(62, 4))
    yield "no rows", *to(drain(0, 0))
    yield "a row outside", *to(drain(64))
    yield "another format", *to(drain(format_=2))
    yield "another epoch", *to(drain(epoch=2))
    yield "another job", *to(drain(job=9))
    yield "another version", *to(drain(version=2))
    yield "another round", *to(drain(round_=1))
    yield "not to the switch", *to(drain(), STRANGE)
    yield "to nowhere", *to(drain(), NOWHERE)
    yield "about to expire", *to(drain(), ttl=1)
    yield "second cells beyond the lanes", *to(drain(seq=LANES))
    yield "longer than it is", *to(drain() + b"\0")
    yield "shorter than it is", *to(drain()[:-1])
    yield "of a worker", 2, frame(HERE, SWITCH, drain(worker=0))
    yield "of a worker, longer than it is", 2, frame(HERE, SWITCH, drain(worker=0) + b"\0")
    yield "of a worker, with second cells", 2, frame(HERE, SWITCH, drain(worker=0, seq=3))
    yield "of a worker as the server", 2, frame(HERE, SWITCH, drain())
    yield "of a forged server", 2, frame(SERVER, SWITCH, drain())
    for more in (-1, 1):
        port, raw = to(drain())
        yield f"of which IPv4 says {more} more", port, total_len(raw, more)


def odd_others() -> Iterator[tuple[str, int, bytes]]:
    """Other operations, to hosts and to the switch."""
    for op in (Op.ACK, Op.DRAINED, 0, 9, 15):
        for destination in (STRANGE, SWITCH, NOWHERE):
            raw = frame(HERE, destination, libra(op, bytes(20)))
            yield f"operation {op} to {destination}", 2, raw
            yield f"operation {op} to {destination}, of another length", 2, total_len(raw, 4)
    for destination in (SWITCH, STRANGE):
        for worker, job, flags in ((0, JOB, 0), (1, JOB, 0), (0, 9, 0), (0, JOB, Flag.REPLY)):
            payload = libra(Op.PROBE, PROBE_BODY, worker=worker, job=job, flags=flags)
            raw = frame(HERE, destination, payload)
            name = f"a PROBE to {destination} of {worker} of job {job} with flags {flags}"
            yield name, 2, raw
            yield f"{name}, of another length", 2, total_len(raw, 4)
    yield "a long PROBE", 2, frame(HERE, SWITCH, libra(Op.PROBE, PROBE_BODY + b"\0"))
    yield "a PROBE of another epoch", 2, frame(HERE, SWITCH, libra(Op.PROBE, PROBE_BODY, epoch=9))
    yield "a forged ACK", 3, frame(SERVER, HERE, libra(Op.ACK))
    yield "a forged answer of the switch", 3, frame(SWITCH, HERE, libra(Op.DRAINED, bytes(6)))


def odd_updates() -> Iterator[tuple[str, int, bytes, bool]]:
    """UPDATEs, of which some close a round; and whether the switch makes copies of each."""

    def to_group(
        payload: bytes, port: int = SERVER_PORT, source: str = SERVER
    ) -> tuple[int, bytes]:
        return port, frame(source, GROUP, payload, ttl=8)

    yield "an UPDATE", *to_group(update(4)), True
    yield "an older one", *to_group(update(2)), True
    yield "of a worker", *to_group(update(9, worker=0), 2, HERE), True
    yield "of a worker as the server", *to_group(update(9), 2, HERE), True
    yield "of a forged server", *to_group(update(9), 2, SERVER), True
    yield "of another epoch", *to_group(update(9, epoch=2)), True
    yield "of another job", *to_group(update(9, job=9)), True
    yield "of which IPv4 says more", SERVER_PORT, total_len(to_group(update(9))[1], 1), True
    yield "of which IPv4 says less", SERVER_PORT, total_len(to_group(update(9))[1], -1), True
    yield "about to expire", SERVER_PORT, frame(SERVER, GROUP, update(5), ttl=1), False
    yield "to the switch", SERVER_PORT, frame(SERVER, SWITCH, update(6)), False
    yield "to a worker", SERVER_PORT, frame(SERVER, HERE, update(7)), False
    yield "of another version", *to_group(update(8, version=2)), True


def test_the_same_as_on_v1model(tofino: TofinoUnderTest, v1model: SwitchUnderTest) -> None:
    """Of every packet: what comes out of which port, and which reason is counted for which job."""
    pair = Pair(tofino, v1model)
    for name, port, raw in odd_packets():
        pair.check(name, port, raw)


def test_rounds_are_closed_as_on_v1model(tofino: TofinoUnderTest, v1model: SwitchUnderTest) -> None:
    """By the same UPDATEs, but for those that are not copied: other pipes do not see them."""
    pair = Pair(tofino, v1model)
    pipes = {attachment.port >> 7 for attachment in tofino.membership().workers}
    for name, port, raw, is_copied in odd_updates():
        if not is_copied and len(pipes) > 1:
            continue
        pair.check(name, port, raw)
        for round_ in range(4, 12):
            payload = libra(Op.GRAD, cells(), seq=next(pair.seq), round_=round_)
            then = f"{name}, then a GRAD of round {round_}"
            pair.check(then, 2, frame(HERE, SERVER, payload))
