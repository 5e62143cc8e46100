"""Captures, read back with scapy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.utils import RawPcapNgReader

from softswitch.capture import CaptureOptions, CaptureStats
from softswitch.dataplane import DataPlane, Direction, LinkFaults
from softswitch.errors import CaptureError, InvalidArgument
from softswitch.wiring import Wiring
from tests.p4rt_support import JSON_PATH, P4INFO_PATH, TIMEOUT_S
from tests.softswitch_port_session import make_links, open_host, swap_program
from tests.test_softswitch_cli import fails, run, serving

IN, OUT = 1, 2


class Seen(NamedTuple):
    """A packet in a file."""

    direction: int
    data: bytes
    length: int
    comments: list[bytes]
    time_ns: int


def read(path: Path) -> tuple[list[Seen], set[bytes]]:
    """Return the packets of a file and the names of its interface."""
    seen, names = [], set()
    with RawPcapNgReader(str(path)) as reader:
        for data, meta in reader:
            assert (meta.linktype, meta.tsresol) == (1, 10**9)
            time_ns = meta.tshigh << 32 | meta.tslow
            seen.append(Seen(meta.direction, data, meta.wirelen, meta.comments or [], time_ns))
            names.add(meta.ifname)
    return seen, names


@pytest.fixture(name="switch")
def swap_switch() -> Iterator[DataPlane]:
    """A switch that sends what comes by port 0 out of port 1, and the other way round."""
    with DataPlane.load(swap_program()) as switch:
        yield switch


def frame(k: int, size: int = 60) -> bytes:
    """A packet with its number."""
    return b"\x02" + k.to_bytes(4, "big") + bytes(size - 5)


@pytest.mark.compiler
def test_both_directions_of_each_port(switch: DataPlane, tmp_path: Path) -> None:
    """Each file has what came and what left, whole, with flags and times in order."""
    options = CaptureOptions.create(tmp_path / "new")
    before_ns = time.time_ns()
    switch.capture_start(options)
    frames = [frame(k, 60 + k) for k in range(8)]
    for data in frames:
        switch.inject(0, data)
    switch.inject(1, frame(9))
    assert switch.capture_stop() == CaptureStats(18, 0, 0)
    after_ns = time.time_ns()
    switch.inject(0, frame(10))
    first, names = read(tmp_path / "new" / "port-0.pcapng")
    assert names == {b"port 0"}
    assert [(s.direction, s.data, s.length) for s in first] == [
        *((IN, data, len(data)) for data in frames),
        (OUT, frame(9), 60),
    ]
    times = [s.time_ns for s in first]
    assert [before_ns, *times, after_ns] == sorted([before_ns, *times, after_ns])
    second, _ = read(tmp_path / "new" / "port-1.pcapng")
    assert [s.direction for s in second] == [OUT] * 8 + [IN]
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "port-0.pcapng").stat().st_mode & 0o777 == 0o600


@pytest.mark.compiler
def test_lost_packets_say_why(switch: DataPlane, tmp_path: Path) -> None:
    """What a link's faults lose has a comment; copies are there twice."""
    switch.set_link_faults(0, Direction.RX, LinkFaults(duplicate=1.0))
    switch.set_link_faults(1, Direction.TX, LinkFaults(loss=1.0))
    switch.capture_start(CaptureOptions.create(tmp_path))
    switch.inject(0, frame(1))
    switch.set_link_faults(1, Direction.TX, LinkFaults(delay_s=1.0))
    switch.inject(0, frame(2))
    switch.set_link_state(1, up=False)
    switch.inject(0, frame(3))
    switch.capture_stop()
    arrived, _ = read(tmp_path / "port-0.pcapng")
    assert [(s.direction, s.data[4], s.comments) for s in arrived] == [
        (IN, k, []) for k in (1, 1, 2, 2, 3, 3)
    ]
    lost, _ = read(tmp_path / "port-1.pcapng")
    assert [(s.direction, s.data[4], s.comments) for s in lost] == [
        (OUT, k, [reason])
        for k, reason in ((1, b"fault_loss"), (2, b"fault_cut"), (3, b"fault_cut"))
        for _ in range(2)
    ]


@pytest.mark.compiler
def test_bounds(switch: DataPlane, tmp_path: Path) -> None:
    """A file grows to its bound, a packet to snaplen; the rest is counted."""
    switch.capture_start(CaptureOptions.create(tmp_path, max_bytes=1000, snaplen=61))
    for k in range(20):
        switch.inject(0, frame(k, 500))
    stats = switch.capture_stop()
    assert stats.recorded + stats.missed == 40
    total = 0
    for port in (0, 1):
        path = tmp_path / f"port-{port}.pcapng"
        assert 800 < path.stat().st_size <= 1000
        seen, _ = read(path)
        assert {(len(s.data), s.length) for s in seen} == {(61, 500)}
        total += len(seen)
    assert total == stats.recorded


@pytest.mark.compiler
def test_many_packets_are_complete(switch: DataPlane, tmp_path: Path) -> None:
    """More than the chunk in memory holds is recorded without a gap while there is time."""
    switch.capture_start(CaptureOptions.create(tmp_path))
    for k in range(12000):
        switch.inject(0, frame(k, 1000))
        if k % 1000 == 0:
            while switch.capture_stats().recorded < 2 * k:
                time.sleep(0.01)
    assert switch.capture_stop() == CaptureStats(24000, 0, 0)
    seen, _ = read(tmp_path / "port-1.pcapng")
    assert [s.data for s in seen] == [frame(k, 1000) for k in range(12000)]


@pytest.mark.compiler
def test_a_new_pipeline_goes_on_in_the_same_files(tmp_path: Path) -> None:
    """The files get a further section; nothing of the first is lost."""
    wiring = Wiring([0, 1], capture=CaptureOptions.create(tmp_path))
    for k in range(2):
        switch = DataPlane.load(swap_program())
        wiring.prepare(switch)
        switch.inject(0, frame(k))
        assert wiring.stats()["pipeline"]
    seen, _ = read(tmp_path / "port-0.pcapng")
    assert [s.data[4] for s in seen] == [0]
    switch.close()
    seen, _ = read(tmp_path / "port-0.pcapng")
    assert [s.data[4] for s in seen] == [0, 1]


@pytest.mark.compiler
def test_a_full_disk_is_told(switch: DataPlane, tmp_path: Path) -> None:
    """Packets that cannot be written are missed, with the reason; forwarding goes on."""
    os.symlink("/dev/full", tmp_path / "port-0.pcapng")
    (tmp_path / "port-1.pcapng").mkdir()
    switch.capture_start(CaptureOptions(tmp_path))
    assert len(switch.inject(0, frame(1))) == 1
    stats = switch.capture_stop()
    assert (stats.recorded, stats.missed) == (0, 2)
    assert stats.error != 0


@pytest.mark.compiler
def test_wrong_use(switch: DataPlane, tmp_path: Path) -> None:
    """Folders that cannot be used and captures in progress."""
    with pytest.raises(CaptureError, match="No such file"):
        switch.capture_start(CaptureOptions(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="File exists"):
        CaptureOptions.create(tmp_path / "file")
    switch.capture_start(CaptureOptions.create(tmp_path))
    with pytest.raises(InvalidArgument, match="in progress"):
        switch.capture_start(CaptureOptions(tmp_path))
    switch.inject(0, frame(1))
    switch.capture_stop()
    assert switch.capture_stop() == CaptureStats(0, 0, 0)
    with pytest.raises(CaptureError, match=r"port-\d.pcapng exists"):
        CaptureOptions.create(tmp_path)
    for values in ({"max_bytes": 0}, {"snaplen": -1}):
        with pytest.raises(InvalidArgument):
            CaptureOptions(tmp_path, **values)


@pytest.mark.root
@pytest.mark.compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
def test_the_command_flushes_on_sigterm(tmp_path: Path) -> None:
    """`softswitch run --capture` has everything in its files when it has ended."""
    script = (
        "import sys; from tests.test_softswitch_capture import capture_session as s; s(sys.argv[1])"
    )
    result = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 4,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    seen, names = read(tmp_path / "port-1.pcapng")
    assert names == {b"port0"}
    assert [(s.direction, s.data) for s in seen] == [(IN, frame(k)) for k in range(100)]


def capture_session(directory: str) -> None:
    """Run the command in a namespace of its own, send frames, and end it by SIGTERM."""
    make_links()
    host = open_host("host0")
    path = Path(directory, "control")
    files = ("--json", JSON_PATH, "--p4info", P4INFO_PATH)
    options = ("-i", "1@port0", "--capture", directory, "--control", path)
    with serving(*files, *options) as (process, _):
        for k in range(100):
            host.send(frame(k))
        while '"rx": 100,' not in run("stats", "-s", path, "--json").stdout:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_wrong_usage(tmp_path: Path) -> None:
    """An old capture is not overwritten; sizes are checked."""
    (tmp_path / "port-3.pcapng").write_text("old")
    fails(run("run", "--capture", tmp_path), 1, "port-3.pcapng exists")
    fails(run("run", "--capture", tmp_path, "--capture-size", "0"), 2, "--capture-size")
