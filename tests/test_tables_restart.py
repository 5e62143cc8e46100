"""A server of `workloads.tables_server` that dies and is started again while its workers live."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from controller.jobapi.channel import ControllerAddress
from controller.jobapi.client import JobIncarnations
from host_stack.appeals import Appeals
from host_stack.checkpoint import save_checkpoint
from host_stack.connect import connected
from host_stack.errors import BadInput
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.own_incarnations import EpochFile, OwnIncarnations
from host_stack.placement import Placement, heat_based
from tests.job_in_memory import LAYOUT, Push, make_job, random_pushes
from tests.kv_jobs import loopback_network, start_scheduler

LIMIT_S = 120
WORKERS = 2
STEPS = 3
KEYS = 1000
HOT = 400


@dataclass
class Restarted:
    """A job without a controller; its server is killed when worker 0 has pushed `step`.

    Before the server hears that the step is complete. Worker 1 pushes that step to the next
    process only.
    """

    folder: Path
    job: Job
    step: int
    pushes: list[list[Push]]
    server: subprocess.Popen[str] = field(init=False)
    is_back: threading.Event = field(default_factory=threading.Event)

    def start_server(self) -> None:
        """Start a process of the server, the first one or the next one."""
        self.server = subprocess.Popen(
            [
                *(sys.executable, "-m", "workloads.tables_server"),
                *(str(self.folder / "job.json"), str(self.folder / "parameters.npz")),
                *("--optimizer", "sgd", "--learning-rate", "1", "--checkpoint-every", "1"),
                *("--placement", str(self.folder / "placement.npz")),
                *("--save", str(self.folder / "final.npy")),
            ]
        )

    def pushed(self, step: int) -> None:
        """Worker 0 has pushed, and not said so: kill the server and start it again, once."""
        if step == self.step and not self.is_back.is_set():
            self.server.kill()
            self.server.wait(LIMIT_S)
            self.start_server()
            self.is_back.set()

    def train(self, rank: int) -> None:
        """The life of a worker."""

        def on_pushed(tag: int, step: int, keys: np.ndarray, gradients: np.ndarray) -> None:
            if rank == 0:
                self.pushed(step)

        nothing = np.zeros(0, np.uint64)
        with connected(self.job, rank, lambda shard: on_pushed, multicast=False) as connection:
            first = connection.worker.start()
            assert first == 0
            for step in range(STEPS):
                if (rank, step) == (1, self.step):
                    assert self.is_back.wait(LIMIT_S)
                connection.worker.push_round(step, *self.pushes[step][rank], nothing)
            connection.worker.end(STEPS - 1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", [0, 1])
def test_no_push_is_lost_with_the_server(tmp_path: Path, step: int) -> None:
    """What the dead process had acknowledged is pushed again to the next one, and counted once."""
    port, scheduled = start_scheduler(WORKERS, 1, LIMIT_S)
    network = loopback_network()
    workers = tuple(f"{network}.{10 + rank}" for rank in range(WORKERS))
    job = replace(
        make_job(WORKERS, KEYS, 40, port),
        workers=workers,
        server=f"{network}.1",
        scheduler=("127.0.0.1", port),
        timeouts_s=dict.fromkeys(("push", "drain", "commit"), float(LIMIT_S)),
    )
    job.save(tmp_path / "job.json")
    heat_based(np.arange(HOT, dtype=np.uint64), LAYOUT).save(tmp_path / "placement.npz")
    save_checkpoint(tmp_path / "parameters.npz", 0, [0] * WORKERS, np.zeros(KEYS, np.float32), {})
    pushes = random_pushes(WORKERS, STEPS, KEYS, 300, seed=41)
    run = Restarted(tmp_path, job, step, pushes)
    run.start_server()
    try:
        with ThreadPoolExecutor(WORKERS) as pool:
            for future in [pool.submit(run.train, rank) for rank in range(WORKERS)]:
                future.result(LIMIT_S)
        assert run.server.wait(LIMIT_S) == 0
    finally:
        run.server.kill()
    scheduled.result(LIMIT_S)
    final = np.load(tmp_path / "final.npy")
    wanted = np.zeros(KEYS, np.float64)
    for keys, gradients in (push for row in pushes for push in row):
        np.subtract.at(wanted, keys.astype(np.int64), gradients.astype(np.float64))
    np.testing.assert_allclose(final, wanted, atol=1e-6)


def test_no_two_processes_share_an_epoch(tmp_path: Path) -> None:
    """Nor begins one where the one before it has gone to, until the job has ended."""
    epochs = EpochFile(tmp_path / "epoch.json")
    first, second = OwnIncarnations(epochs), OwnIncarnations(epochs)
    assert epochs.read() is None
    assert first.begin(7) == 7
    first.renew("", Incarnation(7, 0, 40, 1, Placement.empty(LAYOUT)), 3)
    news = first.news()
    assert news is not None
    assert (news.epoch, news.round) == (8, 3)
    assert second.begin(7) == 9
    epochs.write(4095)
    assert OwnIncarnations(epochs).begin(7) == 1
    epochs.remove()
    assert OwnIncarnations(epochs).begin(7) == 7


def test_who_is_asked_for_another_epoch_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No controller is spoken of where there is none."""
    caplog.set_level(logging.INFO)
    seen = Incarnation(7, 0, 40, 1, Placement.empty(LAYOUT))
    own = Appeals(OwnIncarnations(EpochFile(tmp_path / "epoch.json")))
    own.renew("worker 1 has begun anew", seen, 3)
    own.suspect("row 2 does not answer", seen, 3)
    assert [each.getMessage() for each in caplog.records] == [
        "another epoch begins: worker 1 has begun anew",
        "another epoch begins: row 2 does not answer",
    ]
    caplog.clear()
    address = ControllerAddress.parse(f"unix:{tmp_path}/nobody", None)
    with closing(JobIncarnations(address, 1)) as client:
        asking = Appeals(client)
        asking.renew("worker 1 has begun anew", seen, 3)
        asking.suspect("row 2 does not answer", seen, 3)
    told = [each.getMessage() for each in caplog.records]
    assert "the controller is asked for another epoch: worker 1 has begun anew" in told
    assert "the controller is asked to look at the switch: row 2 does not answer" in told


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"epoch": 0}', '{"epoch": true}'])
def test_a_file_without_an_epoch_is_refused(tmp_path: Path, text: str) -> None:
    """Rather than to begin in one that was used."""
    path = tmp_path / "epoch.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"has epoch|is not a file of epochs"):
        EpochFile(path).read()
