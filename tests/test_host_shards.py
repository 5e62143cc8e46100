"""Ranges of keys, job files of several servers, and the port that their workers share."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.jobapi.shards import split_placement
from controller.placing.pairs import lane_masks, pair_rows
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.peer_transport import PeerTransport
from host_stack.placement import Placement, heat_based
from host_stack.readiness import wait_readable
from host_stack.shards import Shards, shard_sizes
from host_stack.transport import BatchTransport, ipv4, open_udp
from tests.job_in_memory import LAYOUT, make_job

GROUP = "239.19.52.9"
SIZE = 64


def shards_of(*sizes: int) -> Shards:
    """Shards with so many keys."""
    return Shards(
        tuple(
            replace(
                make_job(2, size, 40, 9700),
                job=1 + number,
                server=f"127.0.1.{200 + number}",
                group=f"239.19.52.{2 + number}",
                scheduler=(f"127.0.1.{200 + number}", 9700),
            )
            for number, size in enumerate(sizes)
        )
    )


@settings(deadline=None)
@given(st.integers(1, 10_000), st.integers(1, 15))
def test_shares_differ_by_one_key_at_most(num_keys: int, servers: int) -> None:
    """And are all keys; more servers than keys are refused."""
    if servers > num_keys:
        with pytest.raises(BadInput, match="no more than keys"):
            shard_sizes(num_keys, servers)
        return
    sizes = shard_sizes(num_keys, servers)
    assert sum(sizes) == num_keys
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(st.sets(st.integers(0, 99)), st.sets(st.integers(1, 99), max_size=6))
def test_a_split_loses_no_key(keys: set[int], ends: set[int]) -> None:
    """Each key is at the shard that owns it, under its number there, in order."""
    sizes = np.diff([0, *sorted(ends), 100]).tolist()
    shards, given_keys = shards_of(*sizes), np.array(sorted(keys), np.uint64)
    parts = shards.split(given_keys)
    again = [part + first for part, first in zip(parts, shards.bounds, strict=False)]
    assert np.concatenate(again).tolist() == given_keys.tolist()
    for part, own, size in zip(parts, shards.slices(given_keys), sizes, strict=True):
        assert (part < size).all()
        assert len(part) == own.stop - own.start


def test_job_files_of_one_and_of_several_servers(tmp_path: Path) -> None:
    """Both are read back; one server's file is that of a job, as ever."""
    path = tmp_path / "job.json"
    for shards in (shards_of(10), shards_of(10, 9)):
        shards.save(path)
        assert Shards.load(path) == shards
    with pytest.raises(BadInput, match="several servers: one server's is needed"):
        Job.load(path)
    shards_of(10).save(path)
    assert Job.load(path) == shards_of(10).jobs[0]
    path.write_text(json.dumps({"shards": [3]}))
    with pytest.raises(BadInput, match="no list of jobs"):
        Shards.load(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"job": 1}, "the same job"),
        ({"server": "127.0.1.200"}, "the same server"),
        ({"group": "239.19.52.2"}, "the same group"),
        ({"fraction_bits": 3}, "fraction_bits differs"),
        ({"workers": ("127.0.1.2",)}, "workers differs"),
    ],
)
def test_shards_that_do_not_fit_together(changed: dict, message: str) -> None:
    """The error names what is the same, or is not."""
    first, second = shards_of(10, 10).jobs
    with pytest.raises(BadInput, match=message):
        Shards((first, replace(second, **changed)))


def test_a_placement_keeps_its_lanes_when_it_is_split() -> None:
    """So that a push fills lanes alike; rows close up, and each key is placed once."""
    keys = np.random.default_rng(1).permutation(5000).astype(np.uint64)
    whole = heat_based(keys, LAYOUT)
    sizes = shard_sizes(5000, 3)
    parts = split_placement(whole, sizes)
    lane_of = dict(zip(whole.keys.tolist(), whole.lanes.tolist(), strict=True))
    first = 0
    for part, size in zip(parts, sizes, strict=True):
        assert len(part) == size
        for key, lane in zip((part.keys + np.uint64(first)).tolist(), part.lanes, strict=True):
            assert lane_of[key] == lane
        assert part.used_rows == np.bincount(part.lanes).max()
        first += size
    assert split_placement(whole, [5000]) == [whole]
    assert [len(each) for each in split_placement(Placement.empty(LAYOUT), [4, 4])] == [0, 0]


def test_keys_keep_their_second_cells_when_a_placement_is_split() -> None:
    """In the lane that a DRAIN expects; no other key has one but beside them, in their rows."""
    keys = np.random.default_rng(2).permutation(5000).astype(np.uint64)
    whole = pair_rows(heat_based(keys, LAYOUT), 64)
    with_second = set(whole.keys[whole.rows < 64].tolist())
    sizes = shard_sizes(5000, 3)
    first = 0
    for part, size in zip(split_placement(whole, sizes), sizes, strict=True):
        mine = part.keys + np.uint64(first)
        paired = np.isin(part.rows, part.pairs.rows)
        kept = [key for key in with_second if first <= key < first + size]
        assert set(kept) <= set(mine[paired].tolist())
        # As few rows as hold them in their lanes.
        lanes = part.lanes[np.isin(mine, np.array(kept, np.uint64))]
        assert len(part.pairs) == np.bincount(lanes).max()
        assert part.pairs.masks.tolist() == lane_masks(len(part.pairs), LAYOUT).tolist()
        first += size


def test_a_split_placement_has_second_cells_where_there_is_room() -> None:
    """A full switch has none for them; the keys keep their first ones."""
    keys = np.arange(LAYOUT.cells - 8 * LAYOUT.lanes, dtype=np.uint64)
    whole = pair_rows(heat_based(keys[::-1], LAYOUT), 8)
    parts = split_placement(whole, [len(keys) - 1, 1])
    assert [len(part) for part in parts] == [len(keys) - 1, 1]
    assert parts[0].used_rows <= LAYOUT.rows
    assert len(parts[0].pairs) == 8


def test_a_port_is_shared_by_peers_and_by_nobody_else() -> None:
    """Each transport hears its own peer and group; a second process is refused the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.3.1", 0))
        port = probe.getsockname()[1]
    peers = ["127.0.3.2", "127.0.3.3"]
    senders = {peer: BatchTransport(open_udp(peer, port=port), SIZE, port) for peer in peers}
    mine = [
        PeerTransport("127.0.3.1", peer, SIZE, port=port, beside=number > 0)
        for number, peer in enumerate(peers)
    ]
    with pytest.raises(BadInput, match="cannot open UDP port"):
        PeerTransport("127.0.3.1", peers[0], SIZE, port=port)
    with pytest.raises(BadInput, match="cannot open UDP port"):
        open_udp("127.0.3.1", port=port)
    for number, peer in enumerate(peers):
        data = np.full((1, 8), number, np.uint8)
        assert senders[peer].send(data, np.array([8]), ipv4("127.0.3.1")) == 1
    for number, (transport, peer) in enumerate(zip(mine, peers, strict=True)):
        assert wait_readable(transport.fileno(), 10.0)
        received = transport.receive()
        assert received.sources.tolist() == [ipv4(peer)]
        assert received.data[0, :8].tolist() == [number] * 8
        assert not len(transport.receive())
        assert transport.send(received.data[:1], received.lengths, ipv4(peer)) == 1
        assert wait_readable(senders[peer].fileno(), 10.0)
        assert senders[peer].receive().sources.tolist() == [ipv4("127.0.3.1")]
    for transport in (*mine, *senders.values()):
        transport.close()
