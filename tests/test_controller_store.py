"""The state file of a controller: full disks, damaged files, records that are none."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.daemon.controller import Controller
from controller.daemon.messages import read_ask
from controller.daemon.store import Store
from controller.errors import DamagedState
from controller.jobapi.channel import NoController
from controller.jobapi.operator import Operator, spec_of
from host_stack.placement import heat_based
from mininet_topos.tools import run_tool
from tests.controller_process import WAIT_S, socket_path, star, start_controller, write_star
from tests.isolation import isolated
from tests.job_in_memory import make_job
from tests.test_controller_control_api import HOSTS, creation

PAGE = 4096


def fill(folder: Path) -> Path:
    """A file that takes whatever room its disk has left."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, PAGE):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


@isolated
def test_a_full_disk(tmp_path: Path) -> None:
    """A call fails, and the controller ends; nothing that was answered is lost."""
    run_tool(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)])
    write_star(tmp_path, "127.0.0.1:9", 2)
    spec = spec_of(make_job(2, 4000, 30, 9))
    placement = heat_based(np.arange(4000, dtype=np.uint64), Artifact.load().layout)
    with socket_path() as socket:
        process = start_controller(tmp_path, socket)
        operator = Operator(process.address, WAIT_S)
        process.event("ready")
        made = operator.create(spec, None)
        filler = fill(tmp_path)
        spec.job, spec.group = 2, "239.1.1.2"
        with pytest.raises(NoController):
            Operator(process.address, 20.0).create(spec, placement)
        assert process.ended() == 1
        filler.unlink()
        process = start_controller(tmp_path, socket)
        try:
            process.event("ready")
            assert operator.jobs() == [made]
            assert operator.create(spec, placement).hot_keys == 4000
        finally:
            process.kill()


@isolated
def test_a_change_that_does_not_fit_is_undone(tmp_path: Path) -> None:
    """What is changed next is no part of it."""
    run_tool(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)])
    failures: list[None] = []
    store = Store(tmp_path / "state.sqlite", lambda: failures.append(None))
    before = store.events(0)
    filler = fill(tmp_path)
    with pytest.raises(DamagedState, match="cannot be read or written"), store.change():
        for _ in range(2000):
            store.add_event("a test", 1, "s1", "x" * 200)
    assert store.failure is not None
    assert len(failures) == 1
    filler.unlink()
    assert store.events(0) == before
    number = store.add_event("another", 1, "s1", "").number
    store.close()
    again = Store(tmp_path / "state.sqlite")
    assert [event.number for event in again.events(0)] == [number]
    again.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The file of a controller with a job that has many hot keys."""
    path = tmp_path / "state.sqlite"
    store = Store(path)
    Controller(star("127.0.0.1:9", HOSTS), store).create(read_ask(creation(7, hot=1000)))
    store.close()
    return path


@pytest.mark.parametrize("page", [1, 2, 3])
def test_a_damaged_file_is_refused(state: Path, page: int) -> None:
    """At once, and not when what is damaged is needed."""
    data = bytearray(state.read_bytes())
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    state.write_bytes(data)
    with pytest.raises(DamagedState, match=r"is damaged|not a controller's state"):
        Store(state)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("UPDATE jobs SET record = ?", "{}"),
        ("UPDATE jobs SET record = ?", "[]"),
        ("UPDATE jobs SET record = ?", "null"),
        ("UPDATE jobs SET record = ?", "nothing"),
        ("UPDATE jobs SET record = ?", "[" * 100_000),
        ("UPDATE jobs SET record = ?", '{"scheduler": 5}'),
        ("UPDATE jobs SET taken = ?", "[1]"),
        ("UPDATE jobs SET taken = ?", '{"epoch": 0}'),
    ],
    ids=lambda text: text[:32],
)
def test_a_record_that_is_none(state: Path, change: str, text: str) -> None:
    """Somebody else has written it."""
    with sqlite3.connect(state) as database:
        database.execute(change, (text,))
    database.close()
    store = Store(state)
    with pytest.raises(DamagedState, match="holds a job that is none"):
        store.jobs()
    store.close()


def test_a_placement_that_is_none(state: Path) -> None:
    """It is named with its job."""
    with sqlite3.connect(state) as database:
        database.execute("UPDATE placements SET file = ?", (b"PK",))
    database.close()
    store = Store(state)
    with pytest.raises(DamagedState, match="placement 1 of job 7"):
        Controller(star("127.0.0.1:9", HOSTS), store)
    store.close()
