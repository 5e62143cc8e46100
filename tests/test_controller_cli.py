"""The command line: one line of error and an exit code, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller import cli
from controller.artifacts import Artifact, sources_sha256
from host_stack.errors import LayoutMismatch
from mininet_topos import runner
from tests.host_support import LAYOUT
from tests.operator_commands import run_libra

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--dataset", "synthetic:examples=400,features=60,nnz=4", "--batch", "16")


@pytest.fixture
def libra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Runs `libra …` in this process as inside of an emulation, up to the first mode."""

    def reached(*_arguments: object) -> None:
        pytest.fail("a mode was started")

    artifact = Artifact("libra", b"{}", "", LAYOUT, "p4c", sources_sha256())
    monkeypatch.setattr(runner, "enter_isolated", lambda: None)
    monkeypatch.setattr(runner, "require_tools", lambda *_tools: None)
    monkeypatch.setattr(runner.Artifact, "load", lambda _name: artifact)
    monkeypatch.setattr(runner, "run_modes", reached)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        return run_libra(monkeypatch, capsys, *arguments)

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workers", "0"), ["workers 0", "1 to 128"]),
        (("--workers", "1000"), ["workers 1000", "1 to 128"]),
        (("--dataset", "nope"), ["'nope'", "movielens", "synthetic", "svmlight"]),
        (("--dataset", "svmlight:nowhere.txt"), ["nowhere.txt"]),
        (("--dataset", "synthetic:nnz=many"), ["nnz=many"]),
        ((*SMALL, "--model", "bert"), ["bert", "lr"]),
        ((*SMALL, "--hot", "99999999"), ["99999999", "262144"]),
        ((*SMALL, "--hot", "1000"), ["1000", "the model has"]),
        ((*SMALL, "--hot", "-1"), ["-1"]),
        (("--fault", "kill=moon@r1"), ["moon", "switch, s1, controller, server, worker1"]),
        (("--fault", "kill=switch"), ["kill=switch", "@rROUND"]),
        (("--fault", "loss=0.1", "--target", "bmv2"), ["bmv2", "--target soft"]),
        (("--link-mbps", "0"), ["0", "0.1"]),
        (("--link-mbps", "nan"), ["nan", "0.1"]),
        (("--target", "x"), ["'x'", "soft, bmv2"]),
        (("--mode", "magic"), ["'magic'", "server-only"]),
        (("--transport", "tcp"), ["'tcp'", "batch, scapy"]),
        (("--optimizer", "lamb"), ["'lamb'", "adagrad, adam, momentum, sgd"]),
        (("-F", "200"), ["200", "-64 to 126"]),
        (("--sample", "0"), ["sample 0.0"]),
        (("--learning-rate", "-1"), ["learning_rate is -1.0"]),
        (("--rounds", "0"), ["rounds 0"]),
        (("--seed", "-1"), ["seed -1"]),
        ((*SMALL, "--json", "nowhere/run.json"), ["nowhere/run.json"]),
        ((*SMALL, "--json", "."), ["--json ."]),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: list[str], libra: Run) -> None:
    """Exit code 2 and one line that says what was given and what is allowed."""
    code, out, err = libra("run", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    for word in words:
        assert word in err


def test_results_cannot_be_written(libra: Run, tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "taken").write_text("")
    code, _, err = libra("run", *SMALL, "--out", "taken")
    assert code == 2
    assert err == "error: results cannot be written to taken: File exists\n"


@pytest.mark.parametrize(
    "arguments", [("run", "--workers", "many"), ("run", "--color"), ("dance",)]
)
def test_what_is_no_command(arguments: tuple[str, ...], libra: Run) -> None:
    """What cannot be parsed is shown with the usage; exit code 2."""
    code, out, err = libra(*arguments)
    assert code == 2
    assert "Usage" in err
    assert "Traceback" not in out + err


def test_other_errors_have_exit_code_1(libra: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not the user's."""

    def mismatch(*_arguments: object) -> None:
        raise LayoutMismatch("lanes is 32 here and 64 at the switch")

    monkeypatch.setattr(cli, "run_experiment", mismatch)
    code, out, err = libra("run")
    assert (code, out) == (1, "")
    assert err == "error: lanes is 32 here and 64 at the switch\n"


def test_interrupted(libra: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's code for SIGINT, and no traceback."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run_experiment", interrupt)
    code, out, err = libra("run")
    assert code == 130
    assert "Traceback" not in out + err


def summary(**hashes: str) -> dict[str, object]:
    """What the table of a finished run needs."""
    return {
        "speedup": 2.5,
        "bound": 2.75,
        "hot_keys": 8,
        "modes": {
            mode: {
                "round_s_median": 0.125,
                "busiest_server": "server",
                "bytes": {"server": {"from_switch": 2_000_000, "to_switch": 1_000_000}},
                "quality": {"metrics": {"auc": [0.5, 0.75]}},
                "model_sha256": sha,
                "scale": None,
                "switch_answers": True,
                "audit": None,
            }
            for mode, sha in hashes.items()
        },
        "faults": [],
        "faults_missed": [],
        "audit": None,
    }


def test_a_finished_run(libra: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Figures, the report's place and, where asked for, run.json."""
    made = summary(libra="ab" * 32, fallback="ab" * 32)
    monkeypatch.setattr(cli, "run_experiment", lambda *_: (made, tmp_path))
    monkeypatch.setattr(sys, "argv", ["libra"])
    code, out, err = libra("run", "--json", "copy.json")
    assert (code, err) == (0, "")
    for figure in ("0.125", "2.00 MB", "1.00 MB", "auc", "2.50×", "2.75×", "report.html"):
        assert figure in out
    assert (tmp_path / "copy.json").read_text().startswith("{")


def test_models_that_differ(libra: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The promise of equal bits is checked after every run, and breaking it fails the command."""
    made = summary(libra="ab" * 32, fallback="cd" * 32)
    monkeypatch.setattr(cli, "run_experiment", lambda *_: (made, tmp_path))
    code, _, err = libra("run")
    assert code == 1
    assert "models of the modes differ" in err


def test_faults_and_the_audit_are_told(
    libra: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Recovery in seconds; what did not happen; gradients that were lost fail the command."""
    made = summary(libra="ab" * 32)
    made["faults"] = [
        {
            "mode": "libra",
            "action": "kill",
            "target": "switch",
            "round": 3,
            "phase": "drain",
            "recovery_s": 1.5,
        }
    ]
    missed = {"mode": "libra", "action": "cut", "target": "worker1", "round": 9, "phase": None}
    made["faults_missed"] = [missed]
    audit = {
        "conserved": False,
        "gradients": 9000,
        "steps": 12,
        "commits": 3,
        "discarded": 2,
        "problems": ["round 2: 1 of 7 sums differ"],
    }
    made["modes"]["libra"]["audit"] = audit  # type: ignore[index]
    made["audit"] = {"conserved": False, "pushed_sha256": "ab" * 32}
    monkeypatch.setattr(cli, "run_experiment", lambda *_: (made, tmp_path))
    code, out, err = libra("run", "--audit", "--fault", "kill=switch@r3:drain")
    assert "libra: kill switch in round 3 (drain), recovered after 1.5 s" in out
    assert "warning: libra: cut worker1 in round 9 did not happen" in out
    assert "NOT CONSERVED: 9,000 gradients" in out
    assert "round 2: 1 of 7 sums differ" in out
    assert (code, "not what was pushed" in err) == (1, True)


def test_results_folders_do_not_collide(tmp_path: Path) -> None:
    """Two runs of one second have a folder each; `latest` follows the newest."""
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    first = runner.results_folder(tmp_path / "out", started)
    second = runner.results_folder(tmp_path / "out", started)
    assert (first.name, second.name) == ("20260102-030405", "20260102-030405-1")
    for folder in (first, second):
        runner.point_latest(tmp_path / "out", folder)
        assert (tmp_path / "out" / "latest").resolve() == folder
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_interrupted_while_modules_are_imported() -> None:
    """One line and the exit code of an interrupt, no traceback."""
    script = """
import importlib.abc, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "controller.cli":
            raise KeyboardInterrupt

from controller.entry import main
sys.meta_path.insert(0, Interrupt())
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=240
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_the_installed_command() -> None:
    """The same as a process of its own: nothing on stdout, one line on stderr."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from controller.entry import main; main()",
            "run",
            "--workers",
            "0",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # a loaded machine imports slowly
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: workers 0: allowed are 1 to 128\n"
