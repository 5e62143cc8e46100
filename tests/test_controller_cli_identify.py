"""`libra identify`: files, figures and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.key_counts import KeyCounts
from tests.operator_commands import run_libra
from workloads.trace import KeyTrace

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--dataset", "synthetic:examples=1500,features=300,nnz=6", "--batch", "16")


@pytest.fixture
def libra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Runs `libra identify …` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        return run_libra(monkeypatch, capsys, "identify", *arguments)

    return run


def test_a_given_size(libra: Run, tmp_path: Path) -> None:
    """All files are written and agree with each other."""
    arguments = ("--hot", "40", "--sample", "0.2", "--seeds", "2", "--seed", "3")
    code, out, _ = libra(*SMALL, *arguments, "--json", "id.json", "--out", "found")
    assert code == 0
    assert "40 of 301 keys are hot, chosen by the user" in out
    report = json.loads((tmp_path / "id.json").read_text())
    assert report == json.loads((tmp_path / "found" / "identify.json").read_text())
    assert (report["hot"], report["sample_fraction"], report["drift"]) == (40, 0.2, None)
    methods = [(each["method"], each["seed"]) for each in report["methods"]]
    assert methods == [("exact", None), ("sample", 3), ("sample", 4), ("space-saving", None)]
    sampled = report["methods"][1:3]
    assert report["coverage"] == pytest.approx(sum(each["coverage"] for each in sampled) / 2)
    assert 0.8 < report["coverage"] <= 1.02
    assert 0.5 < report["recall"] < 1
    assert 0.3 < report["stability"] < 1
    assert report["updates"][-1]["share"] == pytest.approx(1.0)
    hot = KeyCounts.load(tmp_path / "found" / "hot.npz")
    assert (len(hot), hot.num_keys, hot.examples) == (40, 301, 270)
    assert (tmp_path / "found" / "updates.png").read_bytes().startswith(b"\x89PNG")


def test_the_byte_model_and_drift(libra: Run, tmp_path: Path) -> None:
    """The size is chosen from the sample; data in random order do not drift."""
    code, out, _ = libra(*SMALL, "--sample", "0.2", "--drift", "--window", "2", "--out", ".")
    assert code == 0
    assert "chosen by the byte model" in out
    report = json.loads((tmp_path / "identify.json").read_text())
    assert 0 < report["hot"] <= 301
    assert report["drift"]["rounds"] == -(-(1350 - 270) // (8 * 16))
    assert report["drift"]["proposals"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hot", "many"), "--hot 'many': it must be a number of keys from 0, or auto"),
        (("--hot", "302"), "302 keys: the model has 301"),
        (("--seeds", "0"), "--seeds 0: allowed are 1 to 100"),
        (("--sample", "0"), "sample fraction is 0"),
        (("--counters", "0"), "0 counters"),
        (("--drift", "--window", "0"), "--window 0: allowed are 1 to"),
        (("--drift", "--window", str(2**40)), "--window 1099511627776: allowed are 1 to"),
        (("--window", "2"), "--window goes with --drift or --trace"),
        (("--out", "/dev/null/x"), "--out /dev/null/x: /dev/null is not a folder"),
        (("--trace", "absent.npz"), "absent.npz is not a trace of keys"),
        (("--dataset", "nope"), "unknown data set 'nope'"),
        (("--json", "nowhere/x.json"), "nowhere/x.json: it must be a file"),
    ],
)
def test_bad_options(libra: Run, arguments: tuple[str, ...], message: str) -> None:
    """One line of error, exit code 2."""
    code, _, err = libra(*SMALL, *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_traces_of_a_run(libra: Run, tmp_path: Path) -> None:
    """The pushes that are saved can be followed, by the same model only."""
    arguments = ("--hot", "40", "--seeds", "1")
    code, _, _ = libra(*SMALL, *arguments, "--save-traces", "--out", ".")
    assert code == 0
    held_out, ordered = (KeyTrace.load(tmp_path / f"{n}.npz") for n in ("held-out", "ordered"))
    assert (len(held_out), len(ordered)) == (150 // 16, -(-1350 // 16))
    code, out, _ = libra(*SMALL, *arguments, "--trace", "ordered.npz")
    assert code == 0
    assert f"in {-(-len(ordered) // 8)} rounds" in out
    code, _, err = libra(*SMALL, *arguments, "--trace", "ordered.npz", "--model", "fm")
    assert code == 2
    assert "ordered.npz is of a model of 301 keys, fm over" in err


@pytest.mark.parametrize("hot", ["0", "301"])
def test_nothing_and_everything(libra: Run, hot: str) -> None:
    """The smallest and the largest hot set."""
    code, out, _ = libra(*SMALL, "--hot", hot, "--seeds", "1", "--drift")
    assert code == 0
    assert f"{hot} of 301 keys" in out
