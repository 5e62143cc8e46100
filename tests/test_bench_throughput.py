"""Ratios from recorded rates; generator and reflector on a link of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bench.contenders import contender, links
from bench.job import BenchJob
from bench.throughput import Rates, ratio
from bench.traffic import Generator, Load, TrafficFailed, open_socket
from controller.artifacts import Artifact
from host_stack.errors import BadInput
from mininet_topos.processes import ProcessGroup
from mininet_topos.tools import run_tool
from softswitch.dataplane import DataPlane
from tests.isolation import isolated

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")


def test_the_ratio_compares_neighbouring_turns() -> None:
    """A machine that slows down for a while slows both, and leaves the ratio as it is."""
    ours = Rates("soft", (300.0, 30.0, 330.0), 0)
    theirs = Rates("reflector", (400.0, 40.0, 440.0), 0)
    assert ratio(ours, theirs) == 0.75
    assert ratio(ours, None) is None
    assert ours.median == 300.0
    record = ours.record()
    assert (record["packets_per_s_lowest"], record["packets_per_s_highest"]) == (30.0, 330.0)
    json.dumps(record)


def test_ratios_need_the_same_turns() -> None:
    """Rates of different runs are not compared."""
    with pytest.raises(ValueError, match="zip"):
        ratio(Rates("a", (1.0, 2.0), 0), Rates("b", (1.0,), 0))


@pytest.mark.parametrize("counter_at", [3, 60, 62])
def test_counters_lie_inside_the_frame(counter_at: int) -> None:
    """The generator would write behind it."""
    frames = np.zeros((1, 62), np.uint8)
    with pytest.raises(BadInput, match="counter at byte"):
        Load("x", frames, window=1, answer_bytes=58, counter_at=counter_at)


@pytest.mark.compiler
@needs_compiler
@isolated
def test_the_generator_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Every frame is answered by the reflector; a missing answer is counted as lost."""
    job = BenchJob(Artifact.load())
    with ProcessGroup(tmp_path) as processes:
        with contender("reflector", job, processes, window=32) as reflector:
            first = reflector.measure(0.1)
            second = reflector.measure(0.1)
        for sent in (first, second):
            assert sent.sent == sent.answered > 32
            assert (sent.lost, sent.strange) == (0, 0)
            assert sent.packets_per_s > 0
        assert not Path("/sys/class/net/reg0").exists()
    with links("x", 1) as [(near, far)], open_socket(near) as fd:
        silent = Generator([Load(near, job.frames(0, 8), 4, 58)], [fd]).run(0.01)
        assert (silent.sent, silent.answered, silent.lost) == (4, 0, 4)
        run_tool(["ip", "link", "set", "dev", far, "down"])
        with pytest.raises(TrafficFailed, match="no-such"), open_socket("no-such"):
            pass


@pytest.mark.compiler
@needs_compiler
@isolated
def test_the_switch_adds_up_what_it_answers(tmp_path: Path) -> None:
    """The embedded switch under load: each answer is of a packet that was aggregated."""
    job = BenchJob(Artifact.load(), workers=2, rows=64)
    DataPlane.load(job.artifact.device_config).close()
    with (
        ProcessGroup(tmp_path) as processes,
        contender("soft", job, processes, window=16) as soft,
    ):
        sent = soft.measure(0.2)
        assert sent.sent == sent.answered > 32
        assert (sent.lost, sent.strange) == (0, 0)
        assert soft.aggregated() == sent.answered
