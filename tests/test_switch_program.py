"""libra.p4 against the numpy reference, bit for bit, on every target that is here."""

from __future__ import annotations

import asyncio

import numpy as np

from controller.counters import limit_probes
from controller.provision import connected
from controller.targets import find_target
from host_stack.codec import DRAIN, HEADER, PROBE, fill_header
from host_stack.fixedpoint import join_digits, split_digits, to_fixed, to_float32
from host_stack.layout import SERVER_RANK, UDP_PORT
from host_stack.wire import DrainFormat, Flag, Op
from tests.memory_network import checksum, frame, udp_ports
from tests.switch_under_test import (
    GROUP,
    SERVER,
    SERVER_PORT,
    SWITCH,
    F,
    Out,
    SwitchUnderTest,
)

pytest_plugins = ("tests.switch_fixtures",)


def every_exponent(seed: int = 1) -> np.ndarray:
    """float32 values of all exponents and signs, with several fractions each, shuffled."""
    rng = np.random.default_rng(seed)
    exponents = np.repeat(np.arange(256, dtype=np.uint32), 2 * 4)
    signs = np.tile(np.array([0, 1], np.uint32), 256 * 4)
    fractions = rng.integers(0, 1 << 23, len(exponents), dtype=np.uint32)
    fractions[0::8] = 0
    fractions[2::8] = (1 << 23) - 1
    fractions[4::8] = 1
    bits = signs << 31 | exponents << 23 | fractions
    return rng.permutation(bits).view(np.float32)


def header(out: Out) -> np.ndarray:
    """The Libra header of a datagram."""
    return np.frombuffer(out.payload[: HEADER.itemsize], HEADER)


def is_ack(outs: list[Out], rank: int, flags: Flag = Flag.NONE) -> bool:
    """Whether the only answer is an ACK of the switch, addressed back to the worker."""
    assert len(outs) == 1
    out, fields = outs[0], header(outs[0])
    return bool(
        out.port == 2 + rank
        and (out.source, out.destination) == (SERVER, f"10.0.0.{2 + rank}")
        and len(out.payload) == HEADER.itemsize
        and fields["version_op"][0] == 0x10 | Op.ACK
        and fields["flags"][0] == flags
    )


def went_to_server(outs: list[Out], payload: bytes) -> bool:
    """Whether the packet went on to the server, unchanged."""
    return [(out.port, out.destination, out.payload) for out in outs] == [
        (SERVER_PORT, SERVER, payload)
    ]


def test_every_exponent_and_sign(switch: SwitchUnderTest) -> None:
    """One gradient a cell: digits and float32 are the reference's, escapes go to the server."""
    lanes = switch.artifact.layout.lanes
    values = every_exponent().reshape(-1, lanes)
    _, escape = to_fixed(values.ravel(), F)
    escape = escape.reshape(values.shape)
    # Escaping values share packets of their own, so that the others are aggregated.
    order = np.argsort(escape.ravel(), kind="stable")
    values = values.ravel()[order].reshape(-1, lanes)
    for row, packet in enumerate(values[:60]):
        fixed, escapes = to_fixed(packet, F)
        record = switch.grad(0, np.full(lanes, row), packet)
        outs = switch.push(0, record)
        if escapes.any():
            assert went_to_server(outs, record.tobytes())
            continue
        assert is_ack(outs, 0)
        digits = switch.drained(switch.drain(row)[0])
        d1, d0 = split_digits(fixed)
        words = digits["cells"][0].astype(np.uint32).view(np.int32)
        assert np.array_equal(words[0::2], d1)
        assert np.array_equal(words[1::2], d0)
        finished = switch.drained(switch.drain(row, form=DrainFormat.FLOAT32)[0])
        got = finished["cells"][0][:lanes].astype(np.uint32)
        assert np.array_equal(got, to_float32(fixed, F).view(np.uint32))


def test_escaping_packets_touch_nothing(switch: SwitchUnderTest) -> None:
    """A single Inf, NaN or too large gradient sends the whole packet to the server."""
    lanes = switch.artifact.layout.lanes
    for bad in (np.inf, -np.inf, np.nan, np.float32(2.0**30)):
        values = np.ones(lanes, np.float32)
        values[lanes - 1] = bad
        record = switch.grad(0, np.zeros(lanes, np.int64), values)
        assert went_to_server(switch.push(0, record), record.tobytes())
    assert switch.drained(switch.drain(0)[0])["used"][0] == 0
    assert switch.reasons()["escaped"] == 4


def test_sums_of_random_gradients(switch: SwitchUnderTest) -> None:
    """Sums over workers equal the reference's in both formats, whatever the order."""
    lanes = switch.artifact.layout.lanes
    rng = np.random.default_rng(7)
    sums = np.zeros((8, lanes), np.int64)
    packets = []
    for rank in range(switch.workers):
        for row in range(8):
            scale = 10.0 ** rng.uniform(-9, 1, lanes)
            values = (rng.standard_normal(lanes) * scale).astype(np.float32)
            sums[row] += to_fixed(values, F)[0]
            packets.append((rank, switch.grad(rank, np.full(lanes, row), values)))
    for index in rng.permutation(len(packets)):
        rank, record = packets[index]
        assert is_ack(switch.push(rank, record), rank)
    for row in range(8):
        digits = switch.drained(switch.drain(row)[0])
        cells = switch.codec.decode_drained(digits, DrainFormat.DIGITS)
        assert np.array_equal(cells.sums, sums[row])
        finished = switch.drained(switch.drain(row, form=DrainFormat.FLOAT32)[0])
        values = switch.codec.decode_drained(finished, DrainFormat.FLOAT32).values
        assert np.array_equal(values.view(np.uint32), to_float32(sums[row], F).view(np.uint32))


def test_rounding_to_nearest_even(switch: SwitchUnderTest) -> None:
    """Sums that need more than 24 bits are rounded once, ties to even, carries included."""
    lanes = switch.artifact.layout.lanes
    one = np.float32(2.0**-F)
    big = [2**24, 2**24 + 2, 2**25 - 2, 2**30, 2**40, 3 * 2**23, 2**24 - 1, 2**23]
    small = [1, 3, -1, 2, -3, 0, 5, -5]
    first = np.array([np.float32(b) * one for b in big] * (lanes // 8), np.float32)
    second = np.array([np.float32(s) * one for s in small] * (lanes // 8), np.float32)
    rows = np.zeros(lanes, np.int64)
    assert is_ack(switch.push(0, switch.grad(0, rows, first)), 0)
    assert is_ack(switch.push(1, switch.grad(1, rows, second)), 1)
    expected = to_float32(to_fixed(first, F)[0] + to_fixed(second, F)[0], F)
    finished = switch.drained(switch.drain(0, form=DrainFormat.FLOAT32)[0])
    values = switch.codec.decode_drained(finished, DrainFormat.FLOAT32).values
    assert np.array_equal(values.view(np.uint32), expected.view(np.uint32))


def test_duplicates_count_once(switch: SwitchUnderTest) -> None:
    """A repeated packet is acknowledged as a duplicate and adds nothing."""
    lanes = switch.artifact.layout.lanes
    record = switch.grad(0, np.zeros(lanes, np.int64), np.ones(lanes, np.float32))
    assert is_ack(switch.push(0, record), 0)
    for _ in range(3):
        assert is_ack(switch.push(0, record), 0, Flag.DUPLICATE)
    cells = switch.codec.decode_drained(switch.drained(switch.drain(0)[0]), DrainFormat.DIGITS)
    assert np.array_equal(cells.sums, to_fixed(np.ones(lanes, np.float32), F)[0])
    assert switch.reasons()["duplicate"] == 3


def test_unused_lanes_stay_untouched(switch: SwitchUnderTest) -> None:
    """A packet with three lanes touches three cells; the answer carries three."""
    values = np.array([1.0, -2.0, 3.0], np.float32)
    assert is_ack(switch.push(0, switch.grad(0, np.array([5, 5, 5]), values)), 0)
    out = switch.drain(5)[0]
    record = switch.drained(out)
    assert record["used"][0] == 0b111
    assert len(out.payload) == switch.codec.drained_prefix + 3 * 8
    cells = switch.codec.decode_drained(record, DrainFormat.DIGITS)
    assert np.array_equal(cells.sums, to_fixed(values, F)[0])


def test_rounds_and_banks(switch: SwitchUnderTest) -> None:
    """A round goes to the other bank, replaces its old sums, and leaves older rounds stale."""
    lanes = switch.artifact.layout.lanes
    rows = np.zeros(lanes, np.int64)
    for round_, value in enumerate((1.0, 2.0, 4.0)):
        record = switch.grad(0, rows, np.full(lanes, value, np.float32), round_)
        assert is_ack(switch.push(0, record), 0)
        if round_ < 2:
            switch.close(round_)
    for round_ in (0, 1):
        old = switch.grad(1, rows, np.ones(lanes, np.float32), round_)
        assert went_to_server(switch.push(1, old), old.tobytes())
    for round_, value in ((1, 2.0), (2, 4.0)):
        record = switch.drained(switch.drain(0, round_=round_)[0])
        cells = switch.codec.decode_drained(record, DrainFormat.DIGITS)
        assert np.array_equal(cells.sums, to_fixed(np.full(lanes, value, np.float32), F)[0])
    assert switch.drained(switch.drain(0, round_=0)[0])["used"][0] == 0
    assert switch.reasons()["stale"] == 2


def test_only_two_rounds_are_open(switch: SwitchUnderTest) -> None:
    """A packet of a future round reaches no cell, and makes nobody else's packet stale."""
    lanes = switch.artifact.layout.lanes
    rows, ones = np.zeros(lanes, np.int64), np.ones(lanes, np.float32)
    switch.close(4)
    for round_ in (7, 8, 1000):
        early = switch.grad(1, rows, ones, round_)
        assert went_to_server(switch.push(1, early), early.tobytes())
    for round_ in (6, 5):
        assert is_ack(switch.push(0, switch.grad(0, rows, ones, round_)), 0)
        assert switch.drained(switch.drain(0, round_=round_)[0])["used"][0] == (1 << lanes) - 1
    assert (switch.reasons()["early"], switch.reasons()["stale"]) == (3, 0)


def test_only_the_server_closes_rounds(switch: SwitchUnderTest) -> None:
    """Neither a worker nor an UPDATE of another epoch or of an older round changes what is open."""
    lanes = switch.artifact.layout.lanes
    rows, ones = np.zeros(lanes, np.int64), np.ones(lanes, np.float32)
    switch.close(4)
    switch.close(9, port=3)
    switch.close(9, epoch=2)
    switch.close(2)
    assert is_ack(switch.push(0, switch.grad(0, rows, ones, 5)), 0)
    early = switch.grad(0, rows, ones, 7)
    assert went_to_server(switch.push(0, early), early.tobytes())


def test_one_drain_answers_a_run_of_rows(switch: SwitchUnderTest) -> None:
    """A DRAIN of n rows is answered by n packets, one a row, also for rows nobody touched."""
    lanes = switch.artifact.layout.lanes
    for row in (2, 4):
        record = switch.grad(0, np.full(lanes, row), np.full(lanes, row, np.float32))
        assert is_ack(switch.push(0, record), 0)
    outs = switch.drain(1, rows=5)
    assert [out.port for out in outs] == [SERVER_PORT] * 5
    assert {(out.source, out.destination) for out in outs} == {(SWITCH, SERVER)}
    records = [switch.drained(out) for out in outs]
    used = {int(record["row"][0]): int(record["used"][0]) for record in records}
    full = (1 << lanes) - 1
    assert used == {1: 0, 2: full, 3: 0, 4: full, 5: 0}


def test_who_does_not_count(switch: SwitchUnderTest) -> None:
    """Unknown jobs, wrong epochs, foreign workers, wrong ports: to the server, and counted."""
    lanes = switch.artifact.layout.lanes
    rows, ones = np.zeros(lanes, np.int64), np.ones(lanes, np.float32)

    def changed(**fields: int) -> np.ndarray:
        record = switch.grad(0, rows, ones)
        for name, value in fields.items():
            record["header"][name] = value
        return record

    for record in (changed(job=9), changed(tag=2 << 20), changed(worker=77), changed(worker=1)):
        assert went_to_server(switch.push(0, record), record.tobytes())
    # The right worker at the wrong port, and with the address of another host: forged.
    record = switch.grad(0, rows, ones)
    assert switch.send(3, SERVER, record.tobytes(), source="10.0.0.2") == []
    assert switch.send(2, SERVER, record.tobytes(), source="10.0.0.3") == []
    reasons = switch.reasons()
    assert (reasons["no_job"], reasons["wrong_epoch"], reasons["foreign"]) == (1, 1, 4)
    assert reasons["aggregated"] == 0
    assert switch.drained(switch.drain(0)[0])["used"][0] == 0


def test_truncated_and_odd_packets(switch: SwitchUnderTest) -> None:
    """Packets that are no GRAD of this layout are forwarded or dropped, and counted."""
    lanes = switch.artifact.layout.lanes
    whole = switch.grad(0, np.zeros(lanes, np.int64), np.ones(lanes, np.float32)).tobytes()
    for length in (0, 1, 15, 16, 20, len(whole) - 1):
        assert went_to_server(switch.send(2, SERVER, whole[:length]), whole[:length])
    wrong_version = bytes([0x21]) + whole[1:]
    assert went_to_server(switch.send(2, SERVER, wrong_version), wrong_version)
    assert switch.reasons()["malformed"] == 7
    assert switch.ports.inject(2, b"") == []
    assert switch.ports.inject(2, b"\xff" * 60) == []
    assert switch.drained(switch.drain(0)[0])["used"][0] == 0


def udp_checksum(raw: bytes) -> int:
    """The checksum that the UDP datagram in a frame should carry."""
    datagram_ = raw[34:40] + b"\0\0" + raw[42:]
    pseudo = raw[26:34] + bytes([0, 17]) + raw[38:40]
    padded = pseudo + datagram_ + b"\0" * (len(datagram_) % 2)
    return checksum(padded) or 0xFFFF


def with_checksum(raw: bytes, value: int) -> bytes:
    """A frame with this UDP checksum."""
    return raw[:40] + value.to_bytes(2, "big") + raw[42:]


def test_udp_checksums_are_checked(switch: SwitchUnderTest) -> None:
    """A GRAD with a right checksum, or with none, counts; one with a wrong checksum is dropped."""
    lanes = switch.artifact.layout.lanes
    for seed in range(20):
        values = np.random.default_rng(seed).standard_normal(lanes).astype(np.float32)
        record = switch.grad(0, np.zeros(lanes, np.int64), values)
        raw = frame("10.0.0.2", SERVER, record.tobytes())
        right = udp_checksum(raw)
        flipped = bytearray(with_checksum(raw, right))
        flipped[100] ^= 0x10
        assert switch.ports.inject(2, bytes(flipped)) == []
        assert len(switch.ports.inject(2, with_checksum(raw, right))) == 1
    reasons = switch.reasons()
    assert (reasons["bad_checksum"], reasons["aggregated"]) == (20, 20)


def test_lengths_and_fragments(switch: SwitchUnderTest) -> None:
    """A GRAD whose IPv4 header says another length, or that more follows, is not added."""
    lanes = switch.artifact.layout.lanes
    record = switch.grad(0, np.zeros(lanes, np.int64), np.ones(lanes, np.float32))
    raw = frame("10.0.0.2", SERVER, record.tobytes())

    def changed(at: int, value: bytes) -> bytes:
        header = bytearray(raw[14:34])
        header[at : at + len(value)] = value
        header[10:12] = b"\0\0"
        header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
        return raw[:14] + bytes(header) + raw[34:]

    switch.ports.inject(2, changed(2, (100).to_bytes(2, "big")))
    switch.ports.inject(2, changed(2, (1400).to_bytes(2, "big")))
    switch.ports.inject(2, changed(6, b"\x20\x00"))
    assert switch.drained(switch.drain(0)[0])["used"][0] == 0
    reasons = switch.reasons()
    assert (reasons["malformed"], reasons["aggregated"]) == (2, 0)


def test_rows_of_nobody(switch: SwitchUnderTest) -> None:
    """A row outside of the job's block goes to the server, and is not folded into another."""
    lanes = switch.artifact.layout.lanes
    for row in (64, 8192, 65535):
        rows = np.zeros(lanes, np.int64)
        rows[lanes // 2] = row
        record = switch.grad(0, rows, np.ones(lanes, np.float32))
        assert went_to_server(switch.push(0, record), record.tobytes())
        assert switch.drain(row) == []
    assert switch.drained(switch.drain(0)[0])["used"][0] == 0
    assert switch.reasons()["unknown_row"] == 6


def test_nobody_speaks_for_another(switch: SwitchUnderTest) -> None:
    """ACK, UPDATE and DRAINED under the address of server or switch are dropped and counted."""
    forged = [(SERVER, Op.ACK), (SERVER, Op.UPDATE), (SWITCH, Op.DRAINED), (SWITCH, Op.PROBE)]
    for source, operation in forged:
        payload = bytes([0x10 | operation]) + bytes(40)
        assert switch.send(2, "10.0.0.3", payload, source=source) == []
    # An address that no port is known for is routed as ever.
    assert len(switch.send(2, "10.0.0.3", bytes(40), source="10.7.7.7")) == 1
    assert switch.reasons()["foreign"] == len(forged)


def test_only_the_server_drains(switch: SwitchUnderTest) -> None:
    """A DRAIN of anyone else, or of another epoch, is not answered."""
    lanes = switch.artifact.layout.lanes
    record = switch.grad(0, np.zeros(lanes, np.int64), np.ones(lanes, np.float32))
    assert is_ack(switch.push(0, record), 0)
    assert switch.drain(0, rows=0) == []
    drain = np.zeros(1, DRAIN)
    fill_header(drain["header"], Op.DRAIN, job=1, worker=SERVER_RANK, tag=1 << 20)
    drain["rows"] = 1
    assert switch.send(2, SWITCH, drain.tobytes()) == []
    drain["header"]["tag"] = 2 << 20
    assert switch.send(SERVER_PORT, SWITCH, drain.tobytes()) == []
    assert switch.reasons()["drain_refused"] == 2


def test_answers_go_to_the_port_that_asked(switch: SwitchUnderTest) -> None:
    """So a second process of the server's host may drain, and neither takes the other's answers."""
    drain = np.zeros(1, DRAIN)
    fill_header(drain["header"], Op.DRAIN, job=1, worker=SERVER_RANK, tag=1 << 20)
    drain["rows"] = 2
    asked = frame(SERVER, SWITCH, drain.tobytes(), source_port=40000)
    outs = switch.ports.inject(SERVER_PORT, asked)
    assert [udp_ports(raw) for _, raw in outs] == [(UDP_PORT, 40000)] * 2


def test_probe_tells_the_layout(switch: SwitchUnderTest) -> None:
    """A member learns epoch and layout; a stranger learns nothing."""
    outs = switch.probe(2, 0)
    assert len(outs) == 1
    answer = np.frombuffer(outs[0].payload, PROBE)[0]
    layout = switch.artifact.layout
    assert (answer["lanes"], answer["rows"], answer["window"], answer["program"]) == (
        layout.lanes,
        layout.rows,
        layout.window,
        layout.program,
    )
    assert answer["epoch"] == 1
    assert answer["header"]["flags"] == Flag.REPLY
    assert switch.probe(2, 5) == []


def test_probes_are_limited(switch: SwitchUnderTest) -> None:
    """Of a burst at one port some are answered; other ports, and gradients, do not suffer."""
    burst, sent = 4, 200

    async def limit() -> int:
        target = find_target(switch.target)
        async with connected(switch.address, target, switch.artifact, fresh=False) as connection:
            written = await limit_probes(connection, [2, 3], per_s=1, burst=burst)
            # Read back and left alone.
            assert await limit_probes(connection, [2, 3], per_s=1, burst=burst) == 0
            return written

    assert asyncio.run(limit()) == 2
    answered = sum(len(switch.probe(2, 0)) for _ in range(sent))
    assert burst <= answered < sent
    assert switch.reasons()["throttled"] == sent - answered
    assert len(switch.probe(3, 1)) == 1
    lanes = switch.artifact.layout.lanes
    record = switch.grad(0, np.zeros(lanes, np.int64), np.ones(lanes, np.float32))
    assert is_ack(switch.push(0, record), 0)


def test_update_reaches_every_worker_once(switch: SwitchUnderTest) -> None:
    """The group's server alone may send to it, and does not hear itself."""
    payload = bytes([0x15]) + bytes(30)
    outs = switch.send(SERVER_PORT, GROUP, payload, ttl=8)
    assert sorted(out.port for out in outs) == [2 + rank for rank in range(switch.workers)]
    assert {out.payload for out in outs} == {payload}
    assert switch.send(2, GROUP, payload, ttl=8) == []


def test_other_traffic_is_routed(switch: SwitchUnderTest) -> None:
    """IPv4 that is not Libra's passes; expired and unroutable packets are dropped and counted."""
    ack = bytes([0x12]) + bytes(15)
    outs = switch.send(2, "10.0.0.4", ack)
    assert [(out.port, out.destination) for out in outs] == [(4, "10.0.0.4")]
    assert switch.send(2, "10.0.0.4", ack, ttl=1) == []
    assert switch.send(2, "10.9.9.9", ack) == []
    reasons = switch.reasons()
    assert reasons["ttl_expired"] == 1
    assert reasons["no_route"] == 1


def test_join_digits_is_the_drains_inverse() -> None:
    """What the switch splits, the server joins."""
    values = np.array([0, 1, -1, 2**47, -(2**47), 2**24, -(2**24) - 1])
    assert np.array_equal(join_digits(*split_digits(values)), values)
