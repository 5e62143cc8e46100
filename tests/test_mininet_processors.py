"""What processors did: read from a made /proc, and from the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mininet_topos import processors
from mininet_topos.processors import ProcessorMeter

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def write_proc(
    root: Path, *, ticks: int, some_us: int, threads: dict[tuple[int, int], tuple[int, int]]
) -> None:
    """A /proc with a machine's counters and, for (process, thread), ns on and ns waiting.

    Process 20 is a child of 10, whose name is as odd as names can be.
    """
    (root / "pressure").mkdir(parents=True, exist_ok=True)
    (root / "pressure" / "cpu").write_text(
        f"some avg10=1.00 avg60=2.00 avg300=3.00 total={some_us}\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    )
    user, idle, stolen = ticks, 1000 * ticks, 50 * ticks
    (root / "stat").write_text(f"cpu  {user} 0 0 {idle} 5 0 0 {stolen} 0 0\ncpu0 1 2 3\n")
    for (pid, tid), (busy, waited) in threads.items():
        task = root / str(pid) / "task" / str(tid)
        task.mkdir(parents=True, exist_ok=True)
        (task / "schedstat").write_text(f"{busy} {waited} 3\n")
        parent = 10 if pid == 20 else 1
        (root / str(pid) / "stat").write_text(f"{pid} (a) b) (c) S {parent} 0 0\n")


@pytest.fixture(name="proc")
def make_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc at the first look; every further look counts."""
    monkeypatch.setattr(processors, "EVERY_S", 0.0)
    threads = {(10, 10): (10**9, 10**9), (10, 11): (0, 0), (20, 20): (10**9, 0)}
    write_proc(tmp_path, ticks=100, some_us=5_000_000, threads=threads)
    return tmp_path


def test_what_is_counted_since_the_first_look(proc: Path) -> None:
    """Of the machine without idle and stolen time; of a process with its threads and children."""
    meter = ProcessorMeter({"server": 10}, proc)
    threads = {(10, 10): (3 * 10**9, 10**9), (10, 11): (10**8, 2 * 10**8), (20, 20): (10**9, 10**6)}
    write_proc(proc, ticks=300, some_us=5_500_000, threads=threads)
    meter.look({"server": 10})
    found = meter.as_fields()
    assert found["busy_s"] == pytest.approx(200 * TICK_S)
    assert found["pressure"] == pytest.approx({"some_s": 0.5, "full_s": 0.0})
    assert found["processes"]["server"] == pytest.approx({"busy_s": 2.1, "waited_s": 0.201})
    assert found["count"] == os.cpu_count()


def test_what_ends_keeps_what_was_seen_and_what_begins_counts_from_0(proc: Path) -> None:
    """A process that was killed, and the one that takes its place."""
    meter = ProcessorMeter({"server": 10}, proc)
    write_proc(proc, ticks=100, some_us=0, threads={(10, 10): (2 * 10**9, 10**9)})
    meter.look({"server": 10})
    write_proc(proc, ticks=100, some_us=0, threads={(30, 30): (5 * 10**8, 10**8)})
    meter.look({"server": 30})
    assert meter.as_fields()["processes"]["server"] == pytest.approx(
        {"busy_s": 1.5, "waited_s": 0.1}
    )


def test_looks_are_not_more_frequent_than_needed(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes at once counts nothing."""
    monkeypatch.setattr(processors, "EVERY_S", 1e9)
    meter = ProcessorMeter({}, proc)
    write_proc(proc, ticks=900, some_us=0, threads={})
    meter.look({})
    assert meter.as_fields()["busy_s"] == 0


def test_what_a_kernel_does_not_count_is_null(tmp_path: Path) -> None:
    """Nothing is made up for it."""
    meter = ProcessorMeter({"server": 10}, tmp_path / "absent")
    meter.look({"server": 10})
    found = meter.as_fields()
    assert found["busy_s"] is found["pressure"] is found["processes"] is None


def test_this_machine() -> None:
    """The process of the test is found in the real /proc, if the kernel counts threads."""
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not count what threads wait")
    assert set(ProcessorMeter({"me": os.getpid()}).as_fields()["processes"]) == {"me"}
