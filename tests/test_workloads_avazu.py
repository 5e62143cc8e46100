"""Avazu's click log: values by hand, blocks, malformed lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.click_logs import avazu_lines
from workloads import avazu, lines
from workloads.datasets import open_dataset
from workloads.errors import WorkloadError

GOOD = "1,0,14102100,1005,0," + ",".join(f"{number:x}" for number in range(19))


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(tmp_path: Path, content: list[str], name: str = "train.csv") -> Path:
    """Write lines to a file."""
    path = tmp_path / name
    text = "".join(line + "\n" for line in content).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def test_examples_by_hand(tmp_path: Path) -> None:
    """Hours of the day come again on another day; a missing value has no pair."""
    second = GOOD.replace("1,0,14102100,1005,0,", "2,1,14102200,1005,,")
    path = write(tmp_path, [avazu.HEADER, GOOD, second, GOOD.replace("14102100", "14102101")])
    data = open_dataset(f"avazu:{path}", seed=1)
    examples = data.examples
    assert (data.task, examples.labels.tolist()) == ("binary", [0.0, 1.0, 0.0])
    assert data.field_starts.tolist() == [0, *range(2, 2 + 21 + 1)]
    first, other, last = (examples.take(np.array([row])).features.tolist() for row in range(3))
    assert other == first[:2] + first[3:]
    assert last[1:] == first[1:]
    assert {first[0], last[0]} == {0, 1}
    assert set(examples.values.tolist()) == {1.0}


@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz"])
@pytest.mark.parametrize("bits", [0, 4])
def test_blocks_do_not_change_the_result(
    name: str, bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does compression, or the end of lines."""
    content = avazu_lines(60)
    whole = open_dataset(f"avazu,bits={bits}:{write(tmp_path, content, 'whole.csv')}", seed=1)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 300)
    path = write(tmp_path, [each + "\r" for each in content], name)
    blocks = open_dataset(f"avazu,bits={bits}:{path}", seed=1)
    for field in ("indptr", "features", "values", "labels"):
        np.testing.assert_array_equal(
            getattr(whole.examples, field), getattr(blocks.examples, field)
        )
    if bits:
        assert np.diff(whole.field_starts).max() <= 16


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1,0", "2 columns; need 24, separated by commas"),
        (GOOD + ",", "25 columns"),
        (GOOD.replace("1,0", "1,2", 1), "click is '2'; allowed: 0 and 1"),
        (GOOD.replace("1,0", "1,", 1), "click is ''"),
        (GOOD.replace("14102100", "141021"), "hour is '141021'; need 8 digits"),
        (GOOD.replace("14102100", "1410210x"), "hour is '1410210x'"),
        (GOOD.replace("1005", "10 05"), "C1 is '10 05'; need up to 64 printable"),
        (GOOD.replace("1005", '"1005"'), "C1 is '\"1005\"'"),
        (GOOD.replace("1005", "x" * 65), "C1 is 'xxxx"),
        (avazu.HEADER, "click is 'click'"),
    ],
)
@pytest.mark.parametrize("block_bytes", [lines.BLOCK_BYTES, 50])
def test_a_malformed_line_is_named(
    bad: str, message: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has file, line and reason, wherever blocks end."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path, [*avazu_lines(4), bad, GOOD])
    with pytest.raises(WorkloadError) as caught:
        avazu.load(path, 0)
    assert str(caught.value).startswith(f"{path}, line 6: {message}")


@pytest.mark.parametrize("content", [[GOOD], [avazu.HEADER.replace("click,", "")], ["id"]])
def test_another_header_is_refused(content: list[str], tmp_path: Path) -> None:
    """Columns are never guessed; the part without clicks cannot be trained on."""
    with pytest.raises(WorkloadError, match="line 1: the header must be id,click,hour"):
        avazu.load(write(tmp_path, content), 0)


def test_a_header_alone(tmp_path: Path) -> None:
    """There is nothing to train on."""
    for content in ([], [avazu.HEADER]):
        with pytest.raises(WorkloadError, match="holds no example"):
            avazu.load(write(tmp_path, content), 0)
