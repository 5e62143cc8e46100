"""Drains over several switches, which add up in flight, against the numpy reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_stack.codec import drain_dtype, fill_header
from host_stack.fixedpoint import (
    MAX_CONTRIBUTIONS,
    join_digits,
    split_digits,
    to_fixed,
    to_float32,
)
from host_stack.layout import SERVER_RANK, UDP_PORT, make_tag
from host_stack.packets import Libra, partial_layer
from host_stack.wire import MAX_HOPS, DrainFormat, Op
from tests.memory_network import datagram, frame, udp_ports
from tests.switch_chain import MESH, SERVER_PORT, Chain, chain_of
from tests.switch_fixtures import TARGETS
from tests.switch_under_test import EPOCH, JOB, SERVER, F

WORKERS = 6
ROW, SECOND = 3, 40
EACH_EXAMPLE = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(
    scope="module",
    params=TARGETS,
)
def chain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chain]:
    """Three switches with two workers each."""
    with chain_of(request.param, 3, WORKERS, tmp_path_factory.mktemp("chain")) as found:
        yield found


def finished(sums: dict[int, int]) -> dict[int, int]:
    """Sums as bits of float32."""
    values = to_float32(np.array([*sums.values()], np.int64), F).view(np.uint32)
    return dict(zip(sums, values.tolist(), strict=True))


def is_acknowledged(chain: Chain, rank: int, outs: list) -> bool:
    """Whether the only answer is an ACK at the worker's own port."""
    return [out.port for out in outs] == [2 + rank] and outs[0].payload[0] == 0x10 | Op.ACK


def push_at_random(
    chain: Chain, rng: np.random.Generator, round_: int, rows: dict[int, int], share: float
) -> dict[int, int]:
    """Let every worker push into `rows` (row → XOR of its lanes); return lane → sum."""
    lanes = chain.artifact.layout.lanes
    sums: dict[int, int] = {}
    for rank in range(chain.workers):
        for row, flip in rows.items():
            chosen = np.flatnonzero(rng.random(lanes) < share)
            scale = 10.0 ** rng.uniform(-9, 1, len(chosen))
            values = (rng.standard_normal(len(chosen)) * scale).astype(np.float32)
            record = chain.grad(rank, row, chosen ^ flip, values, round_)
            assert is_acknowledged(chain, rank, chain.push(rank, record))
            for lane, fixed in zip(chosen.tolist(), to_fixed(values, F)[0], strict=True):
                sums[lane] = sums.get(lane, 0) + int(fixed)
    return sums


def close(chain: Chain, round_: int) -> None:
    """Open the two rounds behind `round_` on every switch, as an UPDATE of the server does."""
    batch, lengths = chain.codec.encode_updates(
        np.zeros(1, np.int64),
        np.zeros((1, chain.artifact.layout.lanes), np.bool_),
        np.zeros((1, chain.artifact.layout.lanes), np.float32),
    )
    tag = make_tag(EPOCH, round_)
    fill_header(batch["header"], Op.UPDATE, job=JOB, worker=SERVER_RANK, tag=tag)
    payload = batch.tobytes()[: int(lengths[0])]
    for switch in range(chain.count):
        (port,) = {host.port for host in chain.hosts(switch) if host.address == SERVER}
        # To an address of a worker: what counts is who sends it, and that it passes.
        chain.send(switch, port, "10.0.0.2", payload, SERVER)


@EACH_EXAMPLE
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.05, 0.4, 1.0]),
    mask=st.integers(0, 31),
)
def test_sums_of_all_switches(chain: Chain, seed: int, share: float, mask: int) -> None:
    """Whoever pushed what where, with second cells or without: the bits are the reference's."""
    round_ = make_round()
    close(chain, round_ - 1)
    rows = {ROW: 0, SECOND: mask} if mask else {ROW: 0}
    sums = push_at_random(chain, np.random.default_rng(seed), round_, rows, share)
    for form, expected in ((DrainFormat.DIGITS, sums), (DrainFormat.FLOAT32, finished(sums))):
        # Reading changes nothing: the second answer is the first.
        for _ in range(2):
            second = SECOND if mask else 0
            (out,) = chain.drain(ROW, 1, form, round_, second, mask)
            assert (out.port, out.source) == (SERVER_PORT, chain.ip(chain.count - 1))
            assert chain.answer(out, form) == expected


_rounds = iter(range(1, 1 << 19, 2))


def make_round() -> int:
    """The number of a round that was not used before."""
    return next(_rounds)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    racks=st.lists(st.integers(1, MAX_CONTRIBUTIONS), min_size=1, max_size=MAX_HOPS + 1),
)
def test_digits_of_all_racks_fit(seed: int, racks: list[int]) -> None:
    """Added up in flight, digits of so many workers as a job may have do not overflow.

    The largest contributions, however they are spread over racks and whatever their signs.
    """
    workers = min(sum(racks), MAX_CONTRIBUTIONS)
    rng = np.random.default_rng(seed)
    fixed = np.full(workers, (1 << 48) - 1) * rng.choice([-1, 1], workers if seed % 3 else 1)
    at = rng.integers(0, len(racks), workers)
    d1, d0 = np.int32(0), np.int32(0)
    with np.errstate(over="raise"):
        for rack in range(len(racks)):
            high, low = split_digits(fixed[at == rack])
            d1 += np.sum(high, dtype=np.int32)
            d0 += np.sum(low, dtype=np.int32)
    assert int(join_digits(np.array([d1]), np.array([d0]))[0]) == sum(fixed.tolist())


def test_every_exponent_at_another_switch(chain: Chain) -> None:
    """Sums of two racks are rounded once, whatever their exponents and signs."""
    lanes = chain.artifact.layout.lanes
    rng = np.random.default_rng(5)
    bits = rng.permutation(np.arange(512, dtype=np.uint32)) << 23
    values = (bits | rng.integers(0, 1 << 23, 512, dtype=np.uint32)).view(np.float32)
    values = values[~to_fixed(values, F)[1]]
    values = values[: len(values) // (2 * lanes) * 2 * lanes].reshape(-1, 2, lanes)
    for first, second in values:
        round_ = make_round()
        close(chain, round_ - 1)
        for rank, part in ((0, first), (1, second)):
            record = chain.grad(rank, ROW, np.arange(lanes), part, round_)
            assert is_acknowledged(chain, rank, chain.push(rank, record))
        total = to_fixed(first, F)[0] + to_fixed(second, F)[0]
        (out,) = chain.drain(ROW, 1, DrainFormat.FLOAT32, round_)
        assert chain.answer(out, DrainFormat.FLOAT32) == finished(dict(enumerate(total.tolist())))


def test_a_run_of_rows(chain: Chain) -> None:
    """One DRAIN asks for several rows; each arrives once, also those that nobody touched."""
    round_ = make_round()
    close(chain, round_ - 1)
    for rank in range(WORKERS):
        ones = np.ones(1, np.float32)
        record = chain.grad(rank, ROW + rank, np.array([rank]), ones, round_)
        assert is_acknowledged(chain, rank, chain.push(rank, record))
    before = [chain.reasons(switch)["drained"] for switch in range(chain.count)]
    outs = chain.drain(ROW, WORKERS + 2, DrainFormat.FLOAT32, round_)
    one = int(np.ones(1, np.float32).view(np.uint32)[0])
    found = {
        int(chain.drained(out)["row"][0]): chain.answer(out, DrainFormat.FLOAT32) for out in outs
    }
    assert len(outs) == len(found) == WORKERS + 2
    assert found == {
        ROW + step: {step: one} if step < WORKERS else {} for step in range(WORKERS + 2)
    }
    after = [chain.reasons(switch)["drained"] for switch in range(chain.count)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [WORKERS + 2] * chain.count


def test_a_run_of_paired_rows(chain: Chain) -> None:
    """Masks go round at every switch as they do at one."""
    round_ = make_round()
    close(chain, round_ - 1)
    for step, mask in enumerate((16, 1, 2, 4)):
        for rank, row, lane in (
            (0, ROW + step, 5),
            (1, SECOND + step, 5 ^ mask),
            (2, ROW + step, 6),
        ):
            record = chain.grad(
                rank, row, np.array([lane]), np.full(1, 1 + rank, np.float32), round_
            )
            assert is_acknowledged(chain, rank, chain.push(rank, record))
    outs = chain.drain(ROW, 4, DrainFormat.DIGITS, round_, SECOND, 16)
    found = {
        int(chain.drained(out)["row"][0]): chain.answer(out, DrainFormat.DIGITS) for out in outs
    }
    assert found == {ROW + step: {5: 3 << F, 6: 3 << F} for step in range(4)}


def test_lost_on_the_way_and_asked_again(chain: Chain) -> None:
    """Whichever packet of a chain is lost, asking again gives the same bits."""
    round_ = make_round()
    close(chain, round_ - 1)
    sums = push_at_random(chain, np.random.default_rng(9), round_, {ROW: 0}, 0.5)
    # The request passes one link, the row two.
    for doomed in range(3):
        passed = []

        def lose(raw: bytes, doomed: int = doomed, passed: list[bytes] = passed) -> bool:
            passed.append(raw)
            return len(passed) == doomed + 1

        chain.lose = lose
        assert chain.drain(ROW, 1, DrainFormat.FLOAT32, round_) == []
        (out,) = chain.drain(ROW, 1, DrainFormat.FLOAT32, round_)
        chain.lose = lambda raw: False
        assert chain.answer(out, DrainFormat.FLOAT32) == finished(sums)


def test_packets_between_switches_are_as_documented(chain: Chain) -> None:
    """A PARTIAL is what Scapy's layer says: every lane, and the switches to come."""
    round_ = make_round()
    close(chain, round_ - 1)
    values = np.array([1.5, -2.0], np.float32)
    chain.push(0, chain.grad(0, ROW, np.array([0, 9]), values, round_))
    passed: list[bytes] = []
    chain.lose = lambda raw: bool(passed.append(raw))
    chain.drain(ROW, 1, DrainFormat.FLOAT32, round_)
    chain.lose = lambda raw: False
    lanes = chain.artifact.layout.lanes
    assert len(passed) == 3
    for switch, raw in enumerate(passed[1:]):
        source, destination, payload = datagram(raw)
        assert (source, destination) == (chain.ip(switch), chain.ip(switch + 1))
        packet = Libra(payload)
        assert (packet.op, packet.epoch, packet.round) == (Op.PARTIAL, EPOCH, round_)
        body = partial_layer(lanes)(payload[16:])
        assert bytes(body) == payload[16:]
        assert (body.row, body.format, body.used) == (ROW, DrainFormat.FLOAT32, 1 | 1 << 9)
        assert body.switches == [chain.ip(each) for each in range(switch + 2, chain.count)]
        d1, d0 = split_digits(to_fixed(values, F)[0])
        assert (body.cells[0].d1, body.cells[0].d0) == (d1[0], d0[0])
        assert body.cells[9].d1 == int(d1[1]) % (1 << 32)
        assert (body.cells[1].d1, body.cells[1].d0) == (0, 0)


def test_answers_go_to_the_port_that_asked(chain: Chain) -> None:
    """Also of a row that passes several switches."""
    record = chain.request(ROW, 2, DrainFormat.DIGITS, make_round())
    asked = frame(SERVER, chain.ip(0), record.tobytes(), source_port=40000)
    outs = chain.carry(chain.count - 1, SERVER_PORT, asked)
    assert [udp_ports(raw) for _, raw in outs] == [(UDP_PORT, 40000)] * 2


def partial(chain: Chain, epoch: int = EPOCH, used: int = 1, **fields: object) -> bytes:
    """A PARTIAL that claims a sum of 2^-F in lane 0 of a row."""
    lanes = chain.artifact.layout.lanes
    layer = partial_layer(lanes)
    cells = [layer.fields_desc[4].cls(d1=0, d0=1) for _ in range(lanes)]
    body = layer(**{"row": ROW, "used": used, "cells": cells, "switches": []} | fields)
    return bytes(Libra(op=Op.PARTIAL, job=JOB, worker=SERVER_RANK, epoch=epoch) / body)


def test_only_the_switch_before_passes_sums_on(chain: Chain) -> None:
    """Hosts, the server and other switches cannot put sums into a drain."""
    last, home = chain.count - 1, chain.ip(chain.count - 1)
    before = chain.reasons(last)
    entry = MESH + last - 1
    refused = [
        (2 + 2, "10.0.0.4"),  # a worker of this rack
        (SERVER_PORT, SERVER),
        (MESH, chain.ip(0)),  # a switch of the job, but not the one before
    ]
    for port, source in refused:
        assert chain.send(last, port, home, partial(chain), source) == []
    # Under the address of the switch before, from anywhere else: forged.
    for port in (2 + 2, SERVER_PORT, MESH):
        assert chain.send(last, port, home, partial(chain), chain.ip(last - 1)) == []
    assert chain.send(last, entry, home, partial(chain, epoch=2), chain.ip(last - 1)) == []
    after = chain.reasons(last)
    assert after["drain_refused"] - before["drain_refused"] == len(refused) + 1
    assert after["foreign"] - before["foreign"] == 3
    (out,) = chain.send(last, entry, home, partial(chain), chain.ip(last - 1))
    assert chain.answer(out, DrainFormat.DIGITS) == {0: 1}
    # A DRAIN is the server's alone.
    drain = np.zeros(1, drain_dtype(0))
    fill_header(drain["header"], Op.DRAIN, job=JOB, worker=SERVER_RANK, tag=make_tag(EPOCH, 0))
    drain["rows"] = 1
    assert chain.send(last, entry, home, drain.tobytes(), chain.ip(last - 1)) == []


def test_malformed_ways(chain: Chain) -> None:
    """Lengths and lists that do not fit together are refused, and counted."""
    last, entry = chain.count - 1, MESH + chain.count - 2
    home, source = chain.ip(last), chain.ip(last - 1)
    before = chain.reasons(last)["malformed"]
    whole = partial(chain)
    bad = [
        whole[:-4],
        whole + bytes(4),
        partial(chain, hops=1),
        partial(chain, hops=255),
        partial(chain, switches=["10.0.1.1"] * (MAX_HOPS + 1)),
        partial(chain, format=2),
    ]
    for payload in bad:
        assert chain.send(last, entry, home, payload, source) == []
    drain = np.zeros(1, drain_dtype(MAX_HOPS + 1))
    fill_header(drain["header"], Op.DRAIN, job=JOB, worker=SERVER_RANK, tag=make_tag(EPOCH, 0))
    drain["rows"], drain["hops"] = 1, MAX_HOPS + 1
    requests = [drain.tobytes()]
    for hops, length in ((0, 26), (1, 22), (2, 26)):
        drain["hops"] = hops
        requests.append(drain.tobytes()[:length])
    for payload in requests:
        assert chain.send(last, SERVER_PORT, home, payload, SERVER) == []
    assert chain.reasons(last)["malformed"] - before == len(bad) + len(requests)
    # What is not for this switch is routed unchanged, whatever it is.
    for payload in (*bad, *requests):
        (out,) = chain.send(last, SERVER_PORT, "10.0.0.4", payload, SERVER)
        assert out.payload == payload


def test_another_racks_packets_pass(chain: Chain) -> None:
    """What a worker's own switch does not add passes the server's switch, uncounted there."""
    last = chain.count - 1
    before = [chain.reasons(switch) for switch in range(chain.count)]
    record = chain.grad(0, ROW, np.array([0]), np.full(1, np.inf, np.float32), make_round())
    (out,) = chain.push(0, record)
    assert (out.port, out.payload) == (SERVER_PORT, record.tobytes())
    after = [chain.reasons(switch) for switch in range(chain.count)]
    assert after[0]["escaped"] - before[0]["escaped"] == 1
    assert after[last] == before[last]
    # Nor is a packet added at the server's switch that its own switch would have added.
    (out,) = chain.send(
        last,
        MESH,
        SERVER,
        chain.grad(0, ROW, np.array([0]), np.ones(1, np.float32)).tobytes(),
        "10.0.0.2",
    )
    assert out.port == SERVER_PORT
    assert chain.reasons(last) == before[last]


def test_the_longest_way() -> None:
    """Program and hosts agree on how many switches a drain may visit."""
    config = Path(__file__).parents[1] / "p4src" / "include" / "config.p4"
    assert f"#define MAX_HOPS {MAX_HOPS}\n" in config.read_text()
    assert drain_dtype(MAX_HOPS).itemsize == 22 + 4 * MAX_HOPS
