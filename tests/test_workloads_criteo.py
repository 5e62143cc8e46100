"""Criteo's click log: values by hand, blocks, compression, malformed lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.click_logs import criteo_lines
from workloads import criteo, lines
from workloads.datasets import open_dataset
from workloads.errors import WorkloadError
from workloads.workload import Workload

VALUES = [f"{number:08x}" for number in range(1, 27)]


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(tmp_path: Path, content: list[str], name: str = "train.txt") -> Path:
    """Write lines to a file."""
    path = tmp_path / name
    text = "".join(line + "\n" for line in content).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def line(label: str = "0", numbers: str = "\t" * 12, values: list[str] | None = None) -> str:
    """A line of which most is missing."""
    return "\t".join([label, numbers, *(values if values is not None else [""] * 26)])


def test_examples_by_hand(tmp_path: Path) -> None:
    """Numbers are squeezed, values are indicators, what is missing has no pair."""
    numbers = "\t".join(["0", "-2", "", *["7"] * 10])
    path = write(tmp_path, [line("1", numbers, VALUES), line("0", "\t" * 12, ["", *VALUES[:25]])])
    data = open_dataset(f"criteo:{path}", seed=1)
    examples = data.examples
    assert (data.task, examples.labels.tolist()) == ("binary", [1.0, 0.0])
    assert examples.row_lengths().tolist() == [11 + 26, 25]
    assert examples.values[:2] == pytest.approx([-np.log(3), np.log(8)])
    assert set(examples.values[11:].tolist()) == {1.0}
    # The first field has 11 integers; the others 1 value of the first line, all but C1 one more.
    assert data.field_starts.tolist() == [0, 11, *range(12, 12 + 2 * 25 + 1, 2)]
    fields = np.searchsorted(data.field_starts, examples.features, side="right") - 1
    assert fields[:37].tolist() == [0] * 11 + list(range(1, 27))
    assert fields[37:].tolist() == list(range(2, 27))


def test_equal_values_of_two_fields_are_two_features(tmp_path: Path) -> None:
    """And equal ones of a field are one."""
    path = write(tmp_path, [line(values=["00000001"] * 26)] * 2)
    data = open_dataset(f"criteo:{path}", seed=1)
    assert data.num_features == 26
    assert data.examples.features[:26].tolist() == data.examples.features[26:].tolist()


def test_bits_bound_the_features_of_a_field(tmp_path: Path) -> None:
    """Two bits leave four at most, whatever the values."""
    path = write(tmp_path, criteo_lines(300))
    whole = open_dataset(f"criteo:{path}", seed=1)
    folded = open_dataset(f"criteo,bits=2:{path}", seed=1)
    np.testing.assert_array_equal(whole.examples.indptr, folded.examples.indptr)
    sizes = np.diff(folded.field_starts)
    assert sizes[0] == 13
    assert set(sizes[1:].tolist()) == {4}
    assert whole.num_features > 10 * folded.num_features


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_blocks_do_not_change_the_result(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does compression, or the end of lines."""
    content = criteo_lines(60)
    whole = open_dataset(f"criteo:{write(tmp_path, content, 'whole.txt')}", seed=1)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 700)
    path = write(tmp_path, [each + "\r" for each in content], name)
    blocks = open_dataset(f"criteo:{path}", seed=1)
    for field in ("indptr", "features", "values", "labels"):
        np.testing.assert_array_equal(
            getattr(whole.examples, field), getattr(blocks.examples, field)
        )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("0\t1", "2 columns; need 40, separated by tabs"),
        ("", "1 columns; need 40"),
        (line()[2:], "39 columns; need 40"),
        (line() + "\t", "41 columns; need 40"),
        (line("2"), "label '2'; allowed: 0 and 1"),
        (line(""), "label ''; allowed"),
        (line("00"), "label '00'"),
        (line(numbers="1.5" + "\t" * 12), "I1 is '1.5'; need an integer"),
        (line(numbers="\t" * 12 + "-"), "I13 is '-'; need an integer"),
        (line(numbers="\t" * 12 + "9" * 19), "I13 is '9999"),
        (line(numbers="\t--1" + "\t" * 11), "I2 is '--1'"),
        (line(values=[*VALUES[:25], "1234567"]), "C26 is '1234567'; need 8 hexadecimal"),
        (line(values=[*VALUES[:25], "1234567G"]), "C26 is '1234567G'"),
        (line(values=["1234567é", *VALUES[:25]]), "C1 is '1234567é'"),
    ],
)
@pytest.mark.parametrize("block_bytes", [lines.BLOCK_BYTES, 100])
def test_a_malformed_line_is_named(
    bad: str, message: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has file, line and reason, wherever blocks end."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path, [*criteo_lines(5), bad, *criteo_lines(2)])
    with pytest.raises(WorkloadError) as caught:
        criteo.load(path, 0)
    assert str(caught.value).startswith(f"{path}, line 6: {message}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("criteo:absent.txt", "cannot read Criteo file absent.txt: No such file"),
        ("criteo,bits=40:x", "criteo: bits is 40.0; allowed: an integer from 0 to 32"),
        ("criteo,size=4:x", "unknown option size; known: bits"),
        ("criteo", "unknown data set 'criteo'; known: .*criteo"),
        ("criteo:", "unknown data set"),
    ],
)
def test_bad_names(spec: str, message: str) -> None:
    """Each refusal says what is allowed."""
    with pytest.raises(WorkloadError, match=message):
        open_dataset(spec, seed=1)


def test_an_empty_file(tmp_path: Path) -> None:
    """There is nothing to train on."""
    with pytest.raises(WorkloadError, match="holds no example"):
        criteo.load(write(tmp_path, []), 0)


def test_a_click_log_can_be_trained_on(tmp_path: Path) -> None:
    """With embeddings of its 27 fields; rows of features come from the mapped file."""
    path = write(tmp_path, criteo_lines(400))
    workload = Workload.open(
        f"criteo:{path}", "dlrm:dim=2,hidden=4", seed=1, workers=2, batch_size=16
    )
    assert workload.model.fields == 27  # type: ignore[attr-defined]
    params = workload.model.initial_params(1)
    keys = workload.keys(0, 0)
    gradient, loss = workload.gradient(0, 0, keys, params[keys.astype(np.int64)])
    assert np.isfinite(loss)
    assert np.count_nonzero(gradient) > len(keys) / 3
    assert 0 < workload.evaluate(params)["auc"] < 1
