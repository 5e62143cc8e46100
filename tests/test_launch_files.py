"""The files of docs/launching.md, as far as they can be tried without a cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from host_stack.job import Job

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "launch"
SCRIPTS = ("role.sh", "rack.sh", "libra.sbatch")


def run(*argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program with some variables more."""
    return subprocess.run(
        argv, env=os.environ | variables, capture_output=True, text=True, timeout=100, check=False
    )


def run_module(name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the project as a program."""
    return run(sys.executable, "-m", name, *argv)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_of_bash(name: str) -> None:
    """They parse, and are executable."""
    assert os.access(LAUNCH / name, os.X_OK)
    done = run("bash", "-n", str(LAUNCH / name))
    assert (done.returncode, done.stderr) == (0, "")


def test_rack_starts_each_role_on_its_host() -> None:
    """In a dry run: scheduler and server on one host, a worker for each rank."""
    done = run(
        str(LAUNCH / "rack.sh"),
        DRY="1",
        SERVER="10.0.0.1",
        HOSTS="10.0.0.2 10.0.0.3",
        KEYS="9",
        LIBRA="/opt/libra",
        SHARED="/shared/a job",
        PROGRAM="/shared/train.py",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert [line.split()[-1] for line in lines] == ["scheduler", "server", "worker", "worker"]
    assert all(r"SHARED=/shared/a\ job" in line and "WORKERS=2" in line for line in lines)
    assert "RANK=1" in lines[3]


def test_rack_starts_several_servers_on_a_host_each() -> None:
    """With a scheduler each, in the order of their keys; what is set for servers is handed on."""
    done = run(
        str(LAUNCH / "rack.sh"),
        DRY="1",
        SERVER="10.0.0.1 10.0.1.1",
        HOSTS="10.0.0.2",
        KEYS="9",
        LIBRA="/opt/libra",
        SHARED="/shared",
        PROGRAM="/shared/train.py",
        OPTIMIZER="adam",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[-1] for line in lines] == [*("scheduler", "server") * 2, "worker"]
    assert all("OPTIMIZER=adam" in line for line in lines)
    for shard, host in enumerate(("10.0.0.1", "10.0.1.1")):
        for line in lines[2 * shard : 2 * shard + 2]:
            assert line.startswith(f"ssh {host} ")
            assert f"SERVER_HOST={host} SHARD={shard} " in line


def test_rack_takes_the_job_of_the_controller(tmp_path: Path) -> None:
    """Layout, epochs and format of drains are those that the controller tells, not made up."""
    told = tmp_path / "told"
    (tmp_path / "launch").symlink_to(LAUNCH)
    for name in (".venv/bin/libra", ".venv/bin/python", "bin/ssh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> "{told}"\n')
        (tmp_path / name).chmod(0o755)
    done = run(
        str(LAUNCH / "rack.sh"),
        PATH=f"{tmp_path}/bin:{os.environ['PATH']}",
        SERVER="10.0.0.1",
        HOSTS="10.0.0.2",
        KEYS="9",
        LIBRA=str(tmp_path),
        SHARED="/shared",
        PROGRAM="/shared/train.py",
        CONTROLLER="10.0.0.1:9560",
        LIBRA_TLS="/shared/tls",
        JOB="7",
    )
    assert done.returncode == 0, done.stderr
    first, second, *others = told.read_text().splitlines()
    options = "--servers 1 --job-file /shared/job.json --controller 10.0.0.1:9560"
    assert first == f"libra job describe -j 7 {options}"
    options = "--keys 9 --server 10.0.0.1 --workers 10.0.0.2 --wait-s 0"
    assert second == f"python -m workloads.check_job /shared/job.json {options}"
    assert len(others) == 3
    assert all("CONTROLLER=10.0.0.1:9560" in line for line in others)
    assert all("LIBRA_TLS=/shared/tls" in line for line in others)


def server_role(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What the role of a server would run, printed; the folder is LIBRA and SHARED."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$*"\n')
    python.chmod(0o755)
    given = {"LIBRA": str(folder), "SHARED": str(folder), "SHARD": "0"} | variables
    return run(str(LAUNCH / "role.sh"), "server", **given)


def test_a_server_has_what_its_controller_knows_it_by(tmp_path: Path) -> None:
    """A controller that other machines reach asks for it."""
    done = server_role(tmp_path, CONTROLLER="10.0.0.1:9560", LIBRA_TLS="/shared/my tls")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" --controller 10.0.0.1:9560 --tls /shared/my tls\n")


@pytest.mark.parametrize("controller", ["", "10.0.0.1:9560"])
def test_a_controller_has_the_placement(tmp_path: Path, controller: str) -> None:
    """A file beside the job is for a job without one; that it is not read is said."""
    placement = tmp_path / "placement.npz"
    placement.touch()
    done = server_role(tmp_path, CONTROLLER=controller)
    assert done.returncode == 0, done.stderr
    if controller:
        assert done.stdout.endswith(f" --controller {controller}\n")
        assert done.stderr.count("\n") == 1
        assert f"{placement} is not read: the hot keys are those that" in done.stderr
    else:
        assert done.stdout.endswith(f" --placement {placement}\n")
        assert done.stderr == ""


@pytest.mark.parametrize(("role", "words"), [("boss", "boss is not"), ("worker", "WORKERS")])
def test_a_role_says_what_it_lacks(tmp_path: Path, role: str, words: str) -> None:
    """Before anything is started."""
    done = run(str(LAUNCH / "role.sh"), role, LIBRA=str(ROOT), SHARED=str(tmp_path))
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize("number", ["0", "2", "many"])
def test_sbatch_leaves_a_worker(tmp_path: Path, number: str) -> None:
    """Whatever number of servers is asked for."""
    (tmp_path / "scontrol").write_text('#!/bin/sh\necho "10.0.0.1\n10.0.0.2"\n')
    (tmp_path / "scontrol").chmod(0o755)
    done = run(
        str(LAUNCH / "libra.sbatch"),
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        SLURM_JOB_NODELIST="some",
        SERVER_NODES=number,
        KEYS="9",
        LIBRA=str(ROOT),
        SHARED=str(tmp_path),
        PROGRAM="/shared/train.py",
    )
    assert done.returncode != 0
    assert f"SERVER_NODES={number} of 2 nodes" in done.stderr
    assert not (tmp_path / "job.json").exists()


@pytest.mark.parametrize("unknown", ["ps1", "w0"])
def test_sbatch_says_which_node_has_no_address(tmp_path: Path, unknown: str) -> None:
    """A server's, or that of the first worker, which all workers meet at."""
    for name, script in {
        "scontrol": 'echo "ps0\nps1\nw0\nw1"',
        "getent": f'[ "$2" != {unknown} ] || exit 2\necho "10.0.0.1  STREAM $2"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = run(
        str(LAUNCH / "libra.sbatch"),
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        SLURM_JOB_NODELIST="some",
        SERVER_NODES="2",
        KEYS="9",
        LIBRA=str(ROOT),
        SHARED=str(tmp_path),
        PROGRAM="/shared/train.py",
    )
    assert done.returncode == 2
    assert f"the node {unknown} has no IPv4 address here" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "job.json").exists()


def test_sbatch_options_are_slurms() -> None:
    """They come before the first command, which is where sbatch stops reading them."""
    lines = (LAUNCH / "libra.sbatch").read_text().splitlines()
    options = [line for line in lines if line.startswith("#SBATCH")]
    assert lines[1 : 1 + len(options)] == options
    names = [re.fullmatch(r"#SBATCH --([a-z-]+)(=\S+)?", line) for line in options]
    assert {match[1] for match in names if match} == {
        *("job-name", "nodes", "ntasks-per-node", "exclusive", "time", "output"),
    }
    assert all(names)


def kubernetes_objects() -> list[dict[str, Any]]:
    """What `kubectl apply` is given."""
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((LAUNCH / "libra.yaml").read_text()))


def test_kubernetes_objects_are_valid() -> None:
    """Against the schemas of Kubernetes, and with one number of servers and of workers."""
    validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    objects = kubernetes_objects()
    assert [each["kind"] for each in objects] == ["Service", "ConfigMap", "Job", "Job"]
    for each in objects:
        validate.validate(each, "1.30", strict=True)
    _, config, *jobs = objects
    for name, each in zip(("SERVER_PODS", "WORKERS"), jobs, strict=True):
        spec, count = each["spec"], int(config["data"][name])
        assert spec["completions"] == spec["parallelism"] == count
    for job in objects[2:]:
        [script] = job["spec"]["template"]["spec"]["containers"][0]["args"]
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_job_is_described_by_names(tmp_path: Path) -> None:
    """They become addresses; what cannot be resolved is named."""
    make = ["workloads.make_job", str(tmp_path / "job.json"), "--keys", "12"]
    done = run_module(*make, "--server", "localhost", "--workers", "127.0.0.2", "127.0.0.3")
    assert done.returncode == 0, done.stderr
    job = Job.load(tmp_path / "job.json")
    assert (job.server, job.workers, job.num_keys) == ("127.0.0.1", ("127.0.0.2", "127.0.0.3"), 12)
    assert job.scheduler == ("127.0.0.1", 9700)


@pytest.mark.parametrize(
    ("out", "server", "words"),
    [
        ("job.json", ["no such host"], "no such host"),
        ("job.json", ["127.0.0.1", "localhost"], "two shards of a job have the same server"),
        ("nowhere/job.json", ["127.0.0.1"], "nowhere/job.json cannot be written: No such file"),
    ],
)
def test_a_job_that_cannot_be_described_is_refused(
    tmp_path: Path, out: str, server: list[str], words: str
) -> None:
    """In a line."""
    make = ["workloads.make_job", str(tmp_path / out), "--keys", "12", "--workers", "127.0.0.2"]
    done = run_module(*make, "--server", *server)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("keys", ["0", "-1", "99999999999999999999"])
def test_a_job_has_keys(tmp_path: Path, keys: str) -> None:
    """How many there may be is said, in the words of the option, before names are resolved."""
    make = ["workloads.make_job", str(tmp_path / "job.json"), "--keys", keys]
    done = run_module(*make, "--server", "no such host", "--workers", "127.0.0.2")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --keys {keys}: the parameters in all tables, 1 to ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("keys", "servers", "workers", "words"),
    [
        ("13", "127.0.0.1 127.0.0.4", "127.0.0.2 127.0.0.3", "KEYS is 13, the job has 12"),
        ("12", "127.0.0.1", "127.0.0.2 127.0.0.3", "SERVER is 127.0.0.1, the job has 127.0.0.1 1"),
        ("12", "localhost 127.0.0.4", "127.0.0.3 127.0.0.2", "HOSTS is 127.0.0.3 127.0.0.2, the"),
        ("12", "localhost 127.0.0.4", "127.0.0.2", "HOSTS is 127.0.0.2, the job has 127.0.0.2 1"),
        ("12", "localhost 127.0.0.4", "127.0.0.2 127.0.0.3", ""),
    ],
)
def test_a_job_of_other_hosts_is_refused(
    tmp_path: Path, keys: str, servers: str, workers: str, words: str
) -> None:
    """In a line; the order of workers is that of their ranks. Names stand for addresses."""
    path = str(tmp_path / "job.json")
    made = ["workloads.make_job", path, "--keys", "12", "--server", "127.0.0.1", "127.0.0.4"]
    assert run_module(*made, "--workers", "127.0.0.2", "127.0.0.3", "--job", "5").returncode == 0
    hosts = ["--server", *servers.split(), "--workers", *workers.split()]
    done = run_module("workloads.check_job", path, "--keys", keys, *hosts)
    assert done.returncode == (2 if words else 0)
    assert done.stderr.count("\n") == bool(words)
    assert words in done.stderr
    assert ("job 5 is another one than is to be started" in done.stderr) == bool(words)
