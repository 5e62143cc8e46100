"""Bytes of a round, taken apart from what a run counts on its links."""

import pytest

from tests.planner_rounds import GRAD_BYTES, PACKETS, WORKERS, bytes_of, mode_of, traffic


def test_bytes_of_libra_are_taken_apart():
    """GRADs stay with the switch, DRAINs go no further; values and UPDATEs are told apart."""
    expected = traffic()
    found = bytes_of(mode_of(expected))
    for name in ("own", "push", "requests", "drained", "update", "cold_down"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3), name


def test_bytes_without_a_switch_are_taken_apart():
    """GRADs go on to the server, which acknowledges them; nothing is drained."""
    own = PACKETS * GRAD_BYTES + 5_000
    expected = traffic(push=WORKERS * own, requests=0.0, drained=0.0)
    found = bytes_of(mode_of(expected, switch=False))
    for name in ("own", "push", "requests", "drained", "update", "cold_down"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3), name


def test_bytes_of_a_server_alone_are_pushes_and_values():
    """No GRADs, no UPDATEs."""
    expected = traffic(own=9_000.0, push=WORKERS * 9_000, requests=0.0, drained=0.0, update=0.0)
    found = bytes_of(mode_of(expected, packets=0.0))
    assert (found.push, found.drained) == (WORKERS * 9_000, 0.0)
    assert found.cold_down == pytest.approx(4_000, rel=1e-3)
    assert found.update == 0


def test_links_between_switches_are_no_workers():
    """Nor is anything else that a run counts."""
    mode = mode_of(traffic())
    more = {"leaf1-spine1": mode["bytes"]["server"], "server2": mode["bytes"]["server"]}
    assert bytes_of({**mode, "bytes": {**mode["bytes"], **more}}) == bytes_of(mode)


def test_one_worker_gets_all_that_a_server_sends():
    """There is no other link to tell values by, and without hot keys no UPDATE."""
    mode = mode_of(traffic(own=9_000.0, requests=0.0, drained=0.0, update=0.0), packets=0.0)
    links = {name: mode["bytes"][name] for name in ("server", "worker1")}
    links["server"]["to_switch"] = links["worker1"]["from_switch"]
    found = bytes_of({**mode, "bytes": links})
    assert found.cold_down == pytest.approx(4_000, rel=1e-3)
    assert (found.workers, found.update) == (1, 0)
