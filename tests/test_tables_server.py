"""The server of jobs with a model of their own: what it is given, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_stack.checkpoint import save_checkpoint
from host_stack.errors import BadInput, LayoutMismatch
from host_stack.placement import heat_based
from host_stack.shards import Shards
from tests.job_in_memory import LAYOUT, make_job
from tests.test_launch_files import run_module
from workloads.tables_server import load_placement

SIZES = (30, 20)


def two_servers() -> Shards:
    """A job whose first server has the keys 0 to 29, and its second one 30 to 49."""
    jobs = [make_job(1, size, 40, 9700 + shard) for shard, size in enumerate(SIZES)]
    second = replace(jobs[1], job=2, server="127.0.1.200", group="239.19.52.3")
    return Shards((jobs[0], second))


def test_a_placement_of_the_job_is_cut_for_its_servers(tmp_path: Path) -> None:
    """Each has the hot keys of its range, as it numbers them."""
    path = tmp_path / "placement.npz"
    heat_based(np.array([40, 2, 30, 29], np.uint64), LAYOUT).save(path)
    job = two_servers()
    assert sorted(load_placement(path, job, 0).keys.tolist()) == [2, 29]
    assert sorted(load_placement(path, job, 1).keys.tolist()) == [0, 10]


def test_a_placement_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Of keys that the job lacks, or of another layout."""
    path = tmp_path / "placement.npz"
    heat_based(np.array([50], np.uint64), LAYOUT).save(path)
    with pytest.raises(BadInput, match="places key 50: the job has keys 0 to 49"):
        load_placement(path, two_servers(), 0)
    heat_based(np.array([1], np.uint64), replace(LAYOUT, lanes=64)).save(path)
    with pytest.raises(LayoutMismatch, match="lanes is 32 in the job file and 64 at"):
        load_placement(path, two_servers(), 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--save", "nowhere/final.npy"], "nowhere/final.npy: its folder does not exist"),
        (
            ["--placement", "hot.npz", "--controller", "unix:/none"],
            "--placement hot.npz with --controller",
        ),
        (["--shard", "2"], "shard 2: the job has shards 0 to 1"),
        (["--optimizer", "best"], "unknown optimiser 'best'"),
        (["--checkpoint-every", "-1"], "checkpoint-every -1"),
        ([], "has 49 parameters of 1 workers, the job 30 of 1"),
    ],
)
def test_what_a_server_cannot_use_is_refused(
    tmp_path: Path, options: list[str], words: str
) -> None:
    """In a line, before it listens."""
    two_servers().save(tmp_path / "job.json")
    save_checkpoint(tmp_path / "parameters.npz", 0, [0], np.zeros(49, np.float32), {})
    files = [str(tmp_path / name) for name in ("job.json", "parameters.npz")]
    done = run_module("workloads.tables_server", *files, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
