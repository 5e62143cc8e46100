"""Job descriptions and their files."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from host_stack import jsonfile
from host_stack.errors import BadInput
from host_stack.job import Job
from tests.host_support import LAYOUT
from tests.job_in_memory import make_job

JOB = Job(
    job=7, epoch=3, fraction_bits=40, num_keys=100, layout=LAYOUT,
    workers=("10.0.0.2", "10.0.0.3"), server="10.0.0.1", switch="10.0.0.254",
    group="239.19.52.2", scheduler=("10.0.0.1", 9700),
)  # fmt: skip


def test_files_hold_the_job(tmp_path: Path) -> None:
    """What was saved is loaded, types included."""
    path = tmp_path / "job.json"
    JOB.save(path)
    assert Job.load(path) == JOB


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"job": 0}, "job 0: allowed are 1 to 65535"),
        ({"job": 65536}, "job 65536: allowed are 1 to 65535"),
        ({"epoch": 0}, "epoch 0: allowed are 1 to 4095"),
        ({"epoch": 4096}, "epoch 4096: allowed are 1 to 4095"),
        ({"fraction_bits": 127}, "F = 127: allowed are -64 to 126"),
        ({"num_keys": 0}, "0 keys"),
        ({"workers": ()}, "0 workers: allowed are 1 to 128"),
        ({"workers": tuple(f"10.0.1.{i}" for i in range(129))}, "129 workers: allowed are 1 to"),
        ({"workers": ("10.0.0.2", "10.0.0.2")}, "10.0.0.2"),
        ({"workers": ("10.0.0.1",)}, "10.0.0.1"),
        ({"workers": ("10.0.0.256",)}, "'10.0.0.256' is not an IPv4 address"),
        ({"server": "ps0"}, "'ps0' is not an IPv4 address"),
        ({"server": "10.0.0.1 10.0.0.2"}, "is not an IPv4 address"),
        ({"switch": "10.254"}, "'10.254' is not an IPv4 address"),
        ({"group": ""}, "'' is not an IPv4 address"),
        ({"group": "10.0.0.9"}, "10.0.0.9"),
        ({"scheduler": ("10.0.0.1", 65536)}, "65536"),
        ({"timeouts_s": {"push": 1.0}}, "drain"),
        ({"timeouts_s": {"push": 0.0, "drain": 1.0, "commit": 1.0}}, "push"),
        ({"timeouts_s": {"push": 1.0, "drain": float("nan"), "commit": 1.0}}, "drain"),
    ],
)
def test_bad_values(changed: dict[str, Any], message: str) -> None:
    """Each value outside of what is allowed is named."""
    with pytest.raises(BadInput, match=message):
        replace(JOB, **changed)


def without(name: str) -> dict[str, Any]:
    """The fields of a job file but for one."""
    return {key: value for key, value in asdict(JOB).items() if key != name}


HOSTILE = {
    "nothing": "",
    "no JSON": "job: 7",
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "not UTF-8": b"\xff\xfe{}",
    "no scheduler": json.dumps(without("scheduler")),
    "no layout": json.dumps(without("layout")),
    "no epoch": json.dumps(without("epoch")),
    "an unknown field": json.dumps(asdict(JOB) | {"color": "red"}),
    "a job of words": json.dumps(asdict(JOB) | {"job": "seven"}),
    "a job with fractions": json.dumps(asdict(JOB) | {"job": 7.5}),
    "an epoch of words": json.dumps(asdict(JOB) | {"epoch": "3"}),
    "a scale with fractions": json.dumps(asdict(JOB) | {"fraction_bits": 40.5}),
    "keys that are true": json.dumps(asdict(JOB) | {"num_keys": True}),
    "workers of numbers": json.dumps(asdict(JOB) | {"workers": [1, 2]}),
    "workers in one string": json.dumps(asdict(JOB) | {"workers": "10.0.0.2"}),
    "no server": json.dumps(asdict(JOB) | {"server": None}),
    "a scheduler without a port": json.dumps(asdict(JOB) | {"scheduler": ["10.0.0.1"]}),
    "a scheduler's port of words": json.dumps(asdict(JOB) | {"scheduler": ["10.0.0.1", "x"]}),
    "a layout of words": json.dumps(asdict(JOB) | {"layout": asdict(LAYOUT) | {"lanes": "32"}}),
    "a layout with fractions": json.dumps(
        asdict(JOB) | {"layout": asdict(LAYOUT) | {"lanes": 32.0}}
    ),
    "half a layout": json.dumps(asdict(JOB) | {"layout": {"lanes": 32}}),
    "time-outs of words": json.dumps(
        asdict(JOB) | {"timeouts_s": {"push": "long", "drain": 1, "commit": 1}}
    ),
    "a list of time-outs": json.dumps(asdict(JOB) | {"timeouts_s": [1, 2, 3]}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(kind: str, tmp_path: Path) -> None:
    """Anything that is no job is refused with one line."""
    path = tmp_path / "job.json"
    content = HOSTILE[kind]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as caught:
        Job.load(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    """A pipe that nobody writes to is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(BadInput, match="is not a job file: it is no regular file"):
            Job.load(path)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is above the limit is not parsed."""
    monkeypatch.setattr(jsonfile, "MAX_JSON_BYTES", 1 << 20)
    JOB.save(path := tmp_path / "job.json")
    with path.open("a") as file:
        file.write(" " * (1 << 20))
    with pytest.raises(BadInput, match="it has more than 1 MiB"):
        Job.load(path)


@pytest.mark.parametrize("port", ["1e400", "9700.5", "true", '"9700"'])
def test_a_port_that_is_no_integer(port: str, tmp_path: Path) -> None:
    """It is refused, not cut off."""
    path = tmp_path / "job.json"
    make_job(2, 100, 40, 9700).save(path)
    path.write_text(path.read_text().replace("9700", port))
    with pytest.raises(BadInput, match="is not a job file: the scheduler's port is"):
        Job.load(path)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there."""
    with pytest.raises(BadInput, match="is not a job file"):
        Job.load(tmp_path / "nowhere.json")


@pytest.mark.parametrize("rank", [-1, 128])
def test_a_rank_that_the_job_does_not_have(rank: int) -> None:
    """The error says which ranks there are; a negative one does not count from the end."""
    job = make_job(2, 100, 40, 9700)
    assert job.worker_address(1) == job.workers[1]
    with pytest.raises(BadInput, match=f"rank {rank}: the job has workers 0 to 1"):
        job.worker_address(rank)
