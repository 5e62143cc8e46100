"""The launchers train a model over two servers, all on this host.

Some stand in for ssh and Slurm; where Slurm is installed, a cluster of it runs here too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from host_stack.torch import Tables, find_tables  # noqa: E402
from tests import torch_program as program  # noqa: E402
from tests.kv_cpp import free_port  # noqa: E402
from tests.kv_jobs import loopback_network  # noqa: E402
from tests.test_launch_files import LAUNCH, ROOT, kubernetes_objects  # noqa: E402

pytestmark = pytest.mark.timeout(900)

LIMIT_S = 600
CLUSTER = ROOT / "tests" / "slurm_cluster.sh"
WORKERS, SERVERS = 2, 2
STAND_INS = {
    "ssh": 'exec bash -c "${@: -1}"',
    "srun": 'while [[ $1 == --* ]]; do shift; done\nexec "$@"',
    "scontrol": 'tr , "\\n" <<<"$3"',
}


def variables(folder: Path) -> dict[str, str]:
    """What all launchers are told; programs of a cluster are stand-ins, which run commands here."""
    for name, script in STAND_INS.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)
    tables = Tables(find_tables(program.Net()))
    tables.save(folder / "parameters.npz", WORKERS)
    return {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "LIBRA": str(ROOT),
        "SHARED": str(folder),
        "KEYS": str(tables.num_keys),
        "PROGRAM": str(ROOT / "tests" / "torch_program.py"),
        "OPTIMIZER": "sgd",
        "LEARNING_RATE": str(program.LEARNING_RATE),
        "MASTER_PORT": str(free_port()),
    }


def names() -> tuple[str, str]:
    """Of servers and of workers: addresses of this host that end with a number from 0 to 9."""
    network = loopback_network()
    return f"{network}.20%g", f"{network}.1%g"


def hosts() -> tuple[list[str], list[str]]:
    """The addresses of servers and of workers."""
    server, worker = names()
    servers = [server.replace("%g", str(each)) for each in range(SERVERS)]
    return servers, [worker.replace("%g", str(each)) for each in range(WORKERS)]


@contextmanager
def running(argv: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A launcher in a group of processes of its own, none of which outlives this."""
    process = subprocess.Popen(
        argv,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.communicate()


def check_trained(folder: Path) -> None:
    """The losses and the model are those of one process with all batches."""
    losses, model = program.alone(WORKERS)
    saved = torch.load(folder / "state.pt", weights_only=True)
    np.testing.assert_allclose(saved["losses"], losses, rtol=1e-5)
    for name, values in model.items():
        np.testing.assert_allclose(saved["net"][name], values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("launcher", ["rack.sh", "libra.sbatch"])
def test_a_launcher_trains_over_two_servers(tmp_path: Path, launcher: str) -> None:
    """It starts all processes with what they need, and ends with them."""
    servers, workers = hosts()
    own = {
        "rack.sh": {"SERVER": " ".join(servers), "HOSTS": " ".join(workers)},
        "libra.sbatch": {"SLURM_JOB_NODELIST": ",".join(servers + workers), "SERVER_NODES": "2"},
    }
    with running([str(LAUNCH / launcher)], variables(tmp_path) | own[launcher]) as process:
        output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, output
    check_trained(tmp_path)


def test_pods_train_over_two_servers(tmp_path: Path) -> None:
    """The scripts of the pods, with addresses for names and a folder for each pod."""
    _, config, *jobs = kubernetes_objects()
    server_name, worker_name = names()
    common = {
        **config["data"],
        **variables(tmp_path),
        "DATA": str(tmp_path),
        "SERVER_PODS": str(SERVERS),
        "WORKERS": str(WORKERS),
        "SERVER_NAME": server_name,
        "WORKER_NAME": worker_name,
        "MASTER": worker_name.replace("%g", "0"),
    }
    pods = []
    with ExitStack() as stack:
        for kind, job, addresses in zip(("server", "worker"), jobs, hosts(), strict=True):
            [container] = job["spec"]["template"]["spec"]["containers"]
            for index, address in enumerate(addresses):
                shared = tmp_path / f"{kind}{index}"
                shared.mkdir()
                own = {
                    "SHARED": str(shared),
                    "JOB_COMPLETION_INDEX": str(index),
                    "SERVER_HOST": address,
                }
                command = [*container["command"], *container["args"]]
                pods.append(stack.enter_context(running(command, common | own)))
        for pod in pods:
            output, _ = pod.communicate(timeout=LIMIT_S)
            assert pod.returncode == 0, output
    check_trained(tmp_path / "worker0")


SLURM = ("sbatch", "scontrol", "slurmctld", "slurmd", "munged", "unshare")
needs_slurm = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="a cluster of Slurm here needs root"),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in SLURM),
        reason="Slurm is missing (apt install slurm-wlm munge)",
    ),
]


@pytest.mark.parametrize(
    ("nodes", "program_file", "code"),
    [
        pytest.param(4, "torch_program.py", 0, marks=needs_slurm),
        pytest.param(4, "no_program.py", 1, marks=needs_slurm),
        pytest.param(5, "torch_program.py", 1, marks=needs_slurm),
    ],
)
def test_slurm_runs_the_batch_file(
    tmp_path: Path, nodes: int, program_file: str, code: int
) -> None:
    """On a cluster of four nodes, all here, which it is checked for: it ends with what fails."""
    shared, cluster = tmp_path / "shared", tmp_path / "cluster"
    shared.mkdir()
    cluster.mkdir()
    given = variables(shared) | {
        "PATH": os.environ["PATH"],
        "PROGRAM": str(ROOT / "tests" / program_file),
        "SERVER_NODES": str(SERVERS),
    }
    isolated = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    options = f"--nodes={nodes} --output={shared}/log --export=ALL {LAUNCH}/libra.sbatch"
    script = f"sbatch --test-only {options} && sbatch --wait {options}"
    argv = ["unshare", *isolated, str(CLUSTER), str(cluster), "bash", "-c", script]
    with running(argv, given) as process:
        output, _ = process.communicate(timeout=LIMIT_S)
    log = shared / "log"
    assert process.returncode == code, output + (log.read_text() if log.exists() else "")
    assert ("Requested node configuration is not available" in output) == (nodes > 4)
    if code == 0:
        check_trained(shared)
