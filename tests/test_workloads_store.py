"""Data sets on disk: numbering, sharing, damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import cache, store
from workloads.store import Block, _Distinct

TOP = 2**64 - 1


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def block(*rows: list[int]) -> Block:
    """Examples with features of the given names; labels and values count up."""
    names = np.array([name for row in rows for name in row], np.uint64)
    return Block(
        np.array([len(row) for row in rows], np.int64),
        names,
        np.arange(len(names), dtype=np.float32),
        np.arange(len(rows), dtype=np.float32),
    )


def test_features_are_numbered_by_name() -> None:
    """Over all blocks, names of 64 bits included; what is mapped again is the same."""
    stored, names = store.store("x", [block([TOP, 7], []), block([5, 7, 5])])
    mapped = store.load("x")
    assert mapped is not None
    for examples in (stored, mapped[0]):
        assert examples.indptr.tolist() == [0, 2, 2, 5]
        assert examples.features.tolist() == [2, 1, 0, 1, 0]
        assert examples.values.tolist() == [0, 1, 0, 1, 2]
        assert examples.labels.tolist() == [0, 1, 0]
    assert names.tolist() == mapped[1].tolist() == [5, 7, TOP]
    assert [path.name for path in cache.cache_dir().iterdir()] == ["x"]


def test_mapped_data_cannot_be_changed() -> None:
    """Other processes map the same pages."""
    examples, _ = store.store("x", [block([1, 2])])
    with pytest.raises(ValueError, match="read-only"):
        examples.values[0] = 5


@settings(max_examples=60, derandomize=True, deadline=None)
@given(runs=st.lists(st.lists(st.integers(0, 40)), max_size=12))
def test_distinct_names_of_a_stream(runs: list[list[int]]) -> None:
    """As a set has them, in few runs."""
    distinct = _Distinct()
    for run in runs:
        distinct.add(np.array(run, np.uint64))
    assert len(distinct._runs) <= 6
    assert distinct.sorted().tolist() == sorted({name for run in runs for name in run})


def test_nothing_stored() -> None:
    """There is nothing under a name that was never stored; data without pairs are data."""
    assert store.load("x") is None
    examples, names = store.store("x", [block([], [])])
    assert (len(examples), examples.nnz, len(names)) == (2, 0, 0)
    assert store.load("x") is not None


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("data.json", b"{}"),
        ("data.json", b'{"schema": 2, "examples": 1, "pairs": 2, "features": 2}'),
        ("data.json", b'{"schema": 1, "examples": -1, "pairs": 2, "features": 2}'),
        ("data.json", b'{"schema": 1, "examples": 1, "pairs": 2, "features": 1}'),
        ("features", b"short"),
        ("features", np.array([0, 9], "<i8").tobytes()),
        ("indptr", np.array([0, 3], "<i8").tobytes()),
        ("values", np.array([1, np.nan], "<f4").tobytes()),
        ("labels", None),
    ],
)
def test_damage_counts_as_missing_and_is_replaced(file: str, content: bytes | None) -> None:
    """Nothing that contradicts itself is trusted."""
    store.store("x", [block([1, 2])])
    path = cache.cache_dir() / "x" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert store.load("x") is None
    store.store("x", [block([1, 2])])
    assert store.load("x") is not None


def test_a_reader_that_fails_leaves_nothing() -> None:
    """The folder of an unfinished data set is removed."""

    def fails() -> Iterator[Block]:
        yield block([1])
        raise KeyError("line 2")

    with pytest.raises(KeyError):
        store.store("x", fails())
    assert list(cache.cache_dir().iterdir()) == []


def test_without_a_cache_data_are_mapped_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From files that have no name any more."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(store.tempfile, "tempdir", str(temporary))
    examples, _ = store.store("x", [block([3, 1])])
    assert examples.features.tolist() == [1, 0]
    assert list(temporary.iterdir()) == []
