"""PyTorch in whole jobs: torchrun without a switch, and in a Mininet emulation with one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from controller.cli import DEFAULTS  # noqa: E402
from host_stack.placement import heat_based  # noqa: E402
from host_stack.shards import Shards, shard_sizes  # noqa: E402
from host_stack.torch import Tables, find_tables  # noqa: E402
from tests import torch_program as program  # noqa: E402
from tests.click_logs import criteo_lines  # noqa: E402
from tests.job_in_memory import LAYOUT, make_job  # noqa: E402
from tests.kv_jobs import loopback_network, start_scheduler  # noqa: E402
from tests.test_run_end_to_end import libra, needs_emulation  # noqa: E402
from workloads.table_part import TablePart  # noqa: E402
from workloads.torch_dlrm import Batch, TorchDlrm  # noqa: E402
from workloads.train_torch import dense_optimizer  # noqa: E402
from workloads.training import open_workload  # noqa: E402

pytestmark = pytest.mark.timeout(900)

LIMIT_S = 800
WORKERS = 2
HOT = np.arange(100, 200, dtype=np.uint64)
"""Of 300 keys: with two servers, half of them are at each."""


def loopback_job(num_keys: int, ports: list[int]) -> Shards:
    """A job on loopback addresses that no other process is likely to have; a server for a port."""
    network = loopback_network()
    workers = tuple(f"{network}.{10 + rank}" for rank in range(WORKERS))
    jobs = []
    for shard, size in enumerate(shard_sizes(num_keys, len(ports))):
        own = make_job(WORKERS, size, 40, ports[shard])
        jobs.append(
            replace(
                own,
                job=1 + shard,
                workers=workers,
                server=f"{network}.{1 + shard}",
                switch=f"{network}.254",
                group=f"239.19.52.{2 + shard}",
                scheduler=("127.0.0.1", ports[shard]),
            )
        )
    return Shards(tuple(jobs))


@contextmanager
def tables_server(folder: Path, shard: int) -> Iterator[subprocess.Popen[str]]:
    """The server of a shard, which is given the hot keys of its own and saves what it ends with."""
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "workloads.tables_server"),
            *(str(folder / "job.json"), str(folder / "parameters.npz"), "--shard", str(shard)),
            *("--optimizer", "sgd", "--learning-rate", str(program.LEARNING_RATE)),
            *("--placement", str(folder / "placement.npz")),
            *("--save", str(folder / f"final{shard}.npy")),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield server
    finally:
        server.kill()
        server.communicate()


def torchrun(*argv: str) -> list[str]:
    """All processes of a job on this host."""
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    return [sys.executable, "-m", *launch, *argv]


@pytest.mark.parametrize("servers", [1, 2])
def test_torchrun_trains_as_one_process_would(tmp_path: Path, servers: int) -> None:
    """Two tables, accumulation and a saved state; hot rows reach their server by UDP."""
    tables = Tables(find_tables(program.Net()))
    tables.save(tmp_path / "parameters.npz", WORKERS)
    schedulers = [start_scheduler(WORKERS, 1, LIMIT_S) for _ in range(servers)]
    job = loopback_job(tables.num_keys, [port for port, _ in schedulers])
    job.save(tmp_path / "job.json")
    heat_based(HOT, LAYOUT).save(tmp_path / "placement.npz")
    with ExitStack() as stack:
        started = [stack.enter_context(tables_server(tmp_path, each)) for each in range(servers)]
        done = subprocess.run(
            torchrun("-m", "tests.torch_program", str(tmp_path / "job.json")),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = [server.communicate(timeout=LIMIT_S)[0].splitlines() for server in started]
    for _, scheduled in schedulers:
        scheduled.result(LIMIT_S)
    assert [server.returncode for server in started] == [0] * servers
    for lines in told:
        events = [json.loads(line) for line in lines]
        names = [event["event"] for event in events]
        assert names == ["ready", *["commit"] * program.STEPS, "done"]
        assert events[-1]["counters"]["fallback_added"] > 0
        assert events[-1]["counters"]["cold_keys"] > 0

    losses, model = program.alone(WORKERS)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    np.testing.assert_allclose(saved["losses"], losses, rtol=1e-5)
    assert saved["optimizer"]["step"] == program.STEPS
    assert saved["net"].keys() == model.keys()
    for name, values in model.items():
        np.testing.assert_allclose(saved["net"][name], values, rtol=1e-4, atol=1e-6)
    final = b"".join(np.load(tmp_path / f"final{each}.npy").tobytes() for each in range(servers))
    assert final == b"".join(
        saved["net"][f"{name}.weight"].numpy().tobytes() for name in ("users", "items")
    )


def losses_alone(dataset: str, rounds: int, batch: int) -> list[float]:
    """The losses of one process that has the batches of all workers, with PyTorch's Adagrad."""
    workload = open_workload(
        "torch", dataset, "dlrm", seed=DEFAULTS.seed, workers=WORKERS, batch_size=batch
    )
    part = workload.model
    assert isinstance(part, TablePart)
    net = TorchDlrm(part, DEFAULTS.seed, workload.dataset.task)
    optimizer = dense_optimizer("adagrad", DEFAULTS.learning_rate, list(net.parameters()))
    losses = []
    for round_ in range(rounds):
        rows = [workload.schedule.rows(rank, round_) for rank in range(WORKERS)]
        examples = workload.train.take(np.concatenate(rows))
        optimizer.zero_grad()
        loss = net.loss(Batch.of(examples, part.whole.field_starts))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("kind", "servers"), [("movielens", 1), ("criteo", 1), ("movielens", 2)])
@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_emulation)])
def test_emulated_hosts_have_the_loss_curve_of_one_process(
    tmp_path: Path, kind: str, servers: int, marked: None
) -> None:
    """A DLRM-style model by torchrun in Mininet hosts, its hot rows summed by the switch."""
    dataset = kind
    if kind == "criteo":
        log = tmp_path / "clicks.txt"
        log.write_text("\n".join(criteo_lines(800)) + "\n")
        dataset = f"criteo:{log}"
    rounds, batch = 8, 64
    done = subprocess.run(
        [
            *libra("run", "--framework", "torch", "--model", "dlrm", "--dataset", dataset),
            *("--servers", str(servers)),
            *("--workers", str(WORKERS), "--rounds", str(rounds), "--batch", str(batch)),
            *("--mode", "libra", "--link-mbps", "100", "--hot", "2000"),
            *("--evaluate-every", "4", "--audit", "--out", str(tmp_path / "out")),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "out" / "latest" / "run.json").read_text())
    mode = summary["modes"]["libra"]
    assert mode["counters"]["aggregated"] > 0
    assert mode["switch_answers"]
    wanted = losses_alone(dataset, rounds, batch)
    np.testing.assert_allclose(mode["loss"], wanted, rtol=1e-4)
    if kind == "movielens":  # the labels of the other are random: there is nothing to learn
        assert wanted[-1] < wanted[0]
