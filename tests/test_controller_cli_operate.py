"""The commands of an operator against a controller with an embedded switch, end to end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller import cli_connection
from host_stack.job import Job
from host_stack.shards import Shards
from tests.controller_process import (
    ControllerProcess,
    controller_process,
    socket_path,
    write_star,
)
from tests.job_in_memory import GROUP, SERVER, addresses
from tests.operator_commands import JOB, WORKERS, Libra, placement_file, push_one, told

pytest_plugins = ("tests.operator_fixtures",)
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]


def test_the_work_of_an_operator(
    libra: Libra, running: tuple[ControllerProcess, Any], tmp_path: Path
) -> None:
    """Create, look, push, read the switch, delete: what each command says, and its JSON."""
    _, switch = running
    workers = ",".join(addresses(WORKERS))
    hot = ("--placement", placement_file(tmp_path, 100))
    made = told(libra, "job", "create", *JOB, "--workers", workers, *hot, "--wait", "60")["job"]
    assert (made["state"], made["epoch"], made["rows"], made["hot_keys"]) == ("ready", 1, 4, 100)
    assert (made["spec"]["placed"], made["spec"]["switch"]) == ("job", "s1")
    assert told(libra, "job", "describe", "--job", "1")["job"] == made
    assert told(libra, "job", "list")["jobs"] == [made]
    code, out, _ = libra("job", "list")
    assert (code, "ready" in out, "0…+4" in out) == (0, True, True)

    code, out, _ = libra("job", "describe", "-j", "1", "--job-file", str(tmp_path / "job.json"))
    assert (code, "job 1 is ready: epoch 1" in out) == (0, True)
    job = Job.load(tmp_path / "job.json")
    assert (job.epoch, job.workers) == (1, tuple(addresses(WORKERS)))

    push_one(job, switch.dataplane, seq=7)
    push_one(replace(job, job=9), switch.dataplane, seq=1)
    push_one(replace(job, workers=job.workers[1:]), switch.dataplane, seq=1)  # not its rank
    stats = told(libra, "stats")
    counts = {(each["job"], each["reason"]): each["packets"] for each in stats["counts"]}
    assert counts == {(1, "aggregated"): 1, (1, "foreign"): 1, (0, "no_job"): 1}
    from_members = {
        (each["worker"], each["address"], each["port"]): each["packets"]
        for each in stats["members"]
    }
    assert from_members == {(None, job.server, 1): 0} | {
        (rank, address, 2 + rank): 1 - rank for rank, address in enumerate(job.workers)
    }
    assert stats["foreign"] == [{"switch": "s1", "port": 3, "packets": 1}]
    out = libra("stats", "--job", "1", "--switch", "s1")[1]
    assert "aggregated" in out
    assert "worker 1" in out
    assert "foreign packets" in out

    dumped = told(libra, "dump", "--job", "1", "--rows", "2", "--windows")
    assert dumped["cells"] == [
        {"row": 1, "lane": 0, "bank": 0, "round": 0, "digits": -(3 << 32), "value": -1.5}
    ]
    assert dumped["through"] == "registers"
    assert dumped["windows"] == [
        {"rank": 0, "newest": 7, "places": 1},
        {"rank": 1, "newest": 0, "places": 0},
    ]
    code, out, _ = libra("dump", "-j", "1", "--row", "1")
    assert (code, "-1.5" in out) == (0, True)

    pushed = told(libra, "push", placement_file(tmp_path, 120), "-j", "1", "--wait", "60")["job"]
    assert (pushed["epoch"], pushed["version"], pushed["hot_keys"]) == (2, 2, 120)
    scaled = told(libra, "push", "-j", "1", "-F", "20", "--wait", "60")["job"]
    assert (scaled["epoch"], scaled["spec"]["fraction_bits"], scaled["hot_keys"]) == (3, 20, 120)
    assert told(libra, "dump", "--job", "1", "--rows", "4")["cells"] == []  # another epoch

    (found,) = told(libra, "switches")["switches"]
    assert (found["ready"], found["jobs"], found["free_rows"]) == (True, [1], 8192 - 4)
    assert "ready" in libra("switches")[1]
    assert told(libra, "status")["epoch"] == 3
    assert "F = 20, placement 3" in libra("status", "--job", "1")[1]

    assert told(libra, "job", "delete", "-j", "1") == {"schema": 1, "deleted": 1, "servers": 1}
    assert told(libra, "job", "list")["jobs"] == []
    code, out, _ = libra("events", "--json")
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert kinds[-1] == "job-deleted"
    assert {"switch-ready", "job-created", "epoch", "placement"} <= set(kinds)
    assert "epoch 2: placement 2" in libra("events", "--job", "1")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("job", "describe", "-j", "7"), 2, "job 7 is not known here; known are none"),
        (("job", "delete", "-j", "7"), 2, "job 7"),
        (("job", "create", *JOB, "--workers", "10.9.9.9"), 2, "10.9.9.9"),
        (("job", "create", *JOB, "--placed", "half"), 2, "allowed are job, group, nothing"),
        (("job", "create", *JOB, "--rows", "99999999"), 2, "the switch has 8192"),
        (("job", "create", *JOB, "--placement", "nowhere.npz"), 2, "nowhere.npz"),
        (("job", "create", *JOB[:4], *JOB[6:], "--server", SERVER, "--job", "-1"), 2, "job -1"),
        (("push", "-j", "7", "-F", "3"), 2, "job 7"),
        (("stats", "--switch", "s9"), 2, "it has s1"),
        (("stats", "--watch", "0"), 2, "allowed are 0.2 to 86400 s"),
        (("dump", "-j", "7"), 2, "job 7"),
    ],
)
def test_what_the_controller_refuses_is_one_line(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    libra: Libra,
    refusing: None,
) -> None:
    """With its exit code."""
    found, out, err = libra(*arguments)
    assert (found, out) == (code, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A controller that knows no job, and whose switch is not there."""
    folder = tmp_path_factory.mktemp("refusing")
    write_star(folder, "127.0.0.1:9", WORKERS)
    with socket_path() as socket, controller_process(folder, socket) as process:
        process.event("ready")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LIBRA_CONTROLLER", f"unix:{socket}")
            yield


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("job", "list", "--controller", "nowhere"), "HOST:PORT or unix:PATH"),
        (("job", "list", "--controller", "127.0.0.1:1", "--tls", "/nowhere"), "no ca.pem"),
        (("controller", "nowhere.toml"), "nowhere.toml is not an inventory"),
        (("controller", "x.toml", "--listen", "0.0.0.0:9560"), "--tls-cert"),
        (("controller", "x.toml", "--listen", "nonsense"), "HOST:PORT"),
        (("controller", "x.toml", "--tls-cert", "x.pem"), "go together"),
        (("probe", "nowhere.json"), "nowhere.json is not a job file"),
        (("push", "-j", "1", "--wait", "nan"), "--wait nan: allowed are 0 to 86400 s"),
        (("push", "-j", "1", "--wait", "-1"), "--wait -1.0: allowed are 0 to 86400 s"),
    ],
)
def test_what_cannot_be_asked(arguments: tuple[str, ...], words: str, libra: Libra) -> None:
    """Exit code 2 before anything is sent."""
    code, out, err = libra(*arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_no_controller(libra: Libra, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Exit code 1, and where it was looked for."""
    monkeypatch.setattr(cli_connection, "CALL_S", 0.2)
    code, _, err = libra("job", "list", "--controller", f"unix:{tmp_path}/none.sock")
    assert code == 1
    assert "none.sock does not answer" in err


def test_a_job_with_several_servers(
    libra: Libra, running: tuple[ControllerProcess, Any], tmp_path: Path
) -> None:
    """Its shards are jobs with numbers in a row: all of them are made, or none."""
    here, there = addresses(WORKERS)
    servers = ("--num-keys", "4001", "-F", "33", "--workers", here, "--server", f"{SERVER},{there}")
    hot = ("--placement", placement_file(tmp_path, 100))
    made = told(libra, "job", "create", "-j", "5", *servers, *hot, "--wait", "60")["jobs"]
    assert [
        (each["spec"]["job"], each["spec"]["server"], each["spec"]["num_keys"], each["hot_keys"])
        for each in made
    ] == [(5, SERVER, 2001, 100), (6, there, 2000, 0)]
    path = tmp_path / "job.json"
    arguments = ("describe", "-j", "5", "--servers", "2", "--job-file", str(path))
    assert told(libra, "job", *arguments)["jobs"] == made
    shards = Shards.load(path)
    assert (shards.num_keys, [job.job for job in shards.jobs]) == (4001, [5, 6])
    code, _, err = libra("job", "create", "-j", "4", *servers)
    assert (code, "job 5" in err) == (2, True)
    assert [each["spec"]["job"] for each in told(libra, "job", "list")["jobs"]] == [5, 6]
    code, _, err = libra("job", "create", "-j", "8", *servers, "--group", GROUP)
    assert (code, "of its own" in err) == (2, True)
    code, _, err = libra("job", "create", "-j", "8", *servers[:-1], f"{SERVER},{SERVER}")
    assert (code, "each needs an address" in err) == (2, True)


def test_a_job_with_several_servers_is_changed_as_one(
    libra: Libra, running: tuple[ControllerProcess, Any], tmp_path: Path
) -> None:
    """Placement, F and workers of all shards; what one is refused for says which have it."""
    here, there = addresses(WORKERS)
    all_of_it = ("-j", "5", "--servers", "2")
    servers = ("--num-keys", "200", "-F", "33", "--workers", here, "--server", f"{SERVER},{there}")
    told(libra, "job", "create", "-j", "5", *servers, "--wait", "60")
    hot = placement_file(tmp_path, 200)
    code, _, err = libra("push", hot, *all_of_it)
    assert (code, "needs 4 rows, the job has 1" in err) == (2, True)
    hot = placement_file(tmp_path, 20)
    pushed = told(libra, "push", hot, *all_of_it, "-F", "20", "--wait", "60")["jobs"]
    assert [
        (each["version"], each["hot_keys"], each["spec"]["fraction_bits"]) for each in pushed
    ] == [
        (2, 20, 20),
        (2, 0, 20),
    ]
    # The second server cannot be a worker of its own.
    code, _, err = libra("job", "workers", *all_of_it, f"{here},{there}")
    assert (code, "job 6: " in err, "it is done for 5" in err) == (2, True, True)
    path = tmp_path / "job.json"
    code, _, err = libra("job", "describe", *all_of_it, "--job-file", str(path))
    assert (code, "workers differs between the shards" in err) == (2, True)
    changed = told(libra, "job", "workers", *all_of_it, here)["jobs"]
    assert [each["spec"]["workers"] for each in changed] == [[here]] * 2
    assert libra("job", "describe", *all_of_it, "--job-file", str(path))[0] == 0
    assert Shards.load(path).jobs[1].fraction_bits == 20
    for wrong, words in (("3", "job 7 is not known"), ("16", "allowed are 1 to 15")):
        code, _, err = libra("job", "delete", "-j", "5", "--servers", wrong)
        assert (code, words in err) == (2, True)
    other = ("--num-keys", "77", "-F", "33", "--workers", here, "--server", SERVER)
    told(libra, "job", "create", "-j", "7", *other)
    code, _, err = libra("job", "delete", "-j", "5", "--servers", "3")
    assert (code, "not the shards of one job" in err) == (2, True)
    deleted = told(libra, "job", "delete", *all_of_it)
    assert deleted == {"schema": 1, "deleted": 5, "servers": 2}
    assert [each["spec"]["job"] for each in told(libra, "job", "list")["jobs"]] == [7]
