"""Placements: cells, look-ups, packing and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.placement import MAX_FILE_BYTES, Placement, RowPairs, heat_based, next_masks
from tests.placements import LAYOUT, placements

KEYS = np.array([50, 3, 2**64 - 1, 0, 17], np.uint64)


def small() -> Placement:
    """Five keys in three lanes."""
    return Placement(KEYS, np.array([0, 1, 1, 7, 0]), np.array([0, 0, 3, 15, 9]), LAYOUT)


def test_heat_based_is_the_papers_order() -> None:
    """The i-th hottest key goes to lane i mod LANES, row i div LANES."""
    ranked = np.arange(100, 120, dtype=np.uint64)
    placement = heat_based(ranked, LAYOUT)
    for i in range(20):
        assert placement.keys[i] == 100 + i
        assert (placement.lanes[i], placement.rows[i]) == (i % 8, i // 8)
    assert placement.used_rows == 3
    assert len(placement) == 20


def test_a_full_switch_and_one_key_more() -> None:
    """Every cell may be used; the next key is refused with both numbers."""
    assert len(heat_based(np.arange(128, dtype=np.uint64), LAYOUT)) == 128
    with pytest.raises(BadInput, match="129 hot keys do not fit: 8 lanes of 16 rows hold 128"):
        heat_based(np.arange(129, dtype=np.uint64), LAYOUT)


@pytest.mark.parametrize(
    ("keys", "lanes", "rows", "message"),
    [
        ([1, 1], [0, 1], [0, 0], "a key is placed twice"),
        ([1, 2], [3, 3], [4, 4], "two keys are placed in one cell"),
        ([1, 2], [0, 8], [0, 0], "a lane is outside of 0 to 7"),
        ([1, 2], [0, -1], [0, 0], "a lane is outside of 0 to 7"),
        ([1, 2], [0, 1], [0, 16], "a row is outside of 0 to 15"),
        ([1, 2], [0, 1], [-1, 0], "a row is outside of 0 to 15"),
        ([1, 2], [0], [0], "same length"),
    ],
)
def test_bad_placements(keys: list[int], lanes: list[int], rows: list[int], message: str) -> None:
    """Each thing that cannot be placed is named."""
    with pytest.raises(BadInput, match=message):
        Placement(np.array(keys, np.uint64), np.array(lanes), np.array(rows), LAYOUT)


@pytest.mark.parametrize(
    ("rows", "seconds", "masks", "message"),
    [
        ([0], [5], [0], "mask of a pair is outside of 1 to 7"),
        ([0], [5], [8], "mask of a pair is outside of 1 to 7"),
        ([16], [5], [1], "row of a pair is outside of 0 to 15"),
        ([0], [-1], [1], "second row is outside of 0 to 15"),
        ([0], [0], [1], "a row is in two pairs"),
        ([0, 3], [5, 5], [1, 1], "a row is in two pairs"),
        ([3], [9], [1], "a key is placed in a row of second cells"),
        ([0], [5, 6], [1], "same length"),
    ],
)
def test_bad_pairs(rows: list[int], seconds: list[int], masks: list[int], message: str) -> None:
    """Second cells outside of the layout, or where others are, are refused."""
    pairs = RowPairs(np.array(rows), np.array(seconds), np.array(masks))
    with pytest.raises(BadInput, match=message):
        Placement(KEYS, small().lanes, small().rows, LAYOUT, pairs)


def test_second_cells_lead_to_their_keys() -> None:
    """Both cells of a key are its own; those of lanes without a key stay empty."""
    pairs = RowPairs(np.array([0]), np.array([4]), np.array([2]))
    placement = Placement(KEYS, small().lanes, small().rows, LAYOUT, pairs)
    lanes, rows = np.array([0, 1, 2, 3, 4]), np.array([4, 4, 4, 4, 4])
    assert placement.index_of(lanes, rows).tolist() == [-1, -1, 0, 1, -1]
    assert placement.placed[4].nonzero()[0].tolist() == [2, 3]
    assert placement.used_rows == 16


def test_rows_to_drain() -> None:
    """Second rows are drained with the first ones, which tell where they are."""
    pairs = RowPairs(np.array([0, 3]), np.array([4, 5]), np.array([2, 1]))
    placement = Placement(KEYS, small().lanes, small().rows, LAYOUT, pairs)
    assert placement.first_rows(np.array([15, 5, 4, 0, 9])).tolist() == [0, 3, 9, 15]
    seconds = placement.second_cells(np.array([0, 3, 9]))
    assert (seconds.rows.tolist(), seconds.masks.tolist()) == ([4, 5, 0], [2, 1, 0])
    assert small().first_rows(np.array([3, 0])).tolist() == [0, 3]
    assert small().second_cells(np.array([0, 3])).masks.tolist() == [0, 0]


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_masks_go_round(lanes: int) -> None:
    """The next mask of a run is the same, rotated; none stays none."""
    layout = Layout(lanes, 16, 256, 1)
    masks = np.array([0, 1, lanes // 2, 3, lanes - 1, lanes // 2 + 1])
    assert next_masks(masks, layout).tolist() == [0, 2, 1, 6, lanes - 1, 3]


def test_find() -> None:
    """Hot keys are told from cold ones, in the order of the question, up to the largest uint64."""
    asked = np.array([17, 4, 2**64 - 1, 0, 2**64 - 2], np.uint64)
    hot, index = small().find(asked)
    assert hot.tolist() == [True, False, True, True, False]
    assert KEYS[index].tolist() == [17, 2**64 - 1, 0]


def test_index_of() -> None:
    """A cell leads to its key; empty cells and cells outside of the placement to -1."""
    placement = small()
    assert placement.index_of(placement.lanes, placement.rows).tolist() == [0, 1, 2, 3, 4]
    lanes, rows = np.array([0, 2, 0, 8, 0]), np.array([1, 0, 16, 0, 65535])
    assert placement.index_of(lanes, rows).tolist() == [-1] * 5


def test_an_empty_placement() -> None:
    """A job without hot keys finds, packs and looks up nothing."""
    empty = heat_based(np.zeros(0, np.uint64), LAYOUT)
    hot, index = empty.find(KEYS)
    assert not hot.any()
    assert len(index) == empty.used_rows == len(empty) == 0
    assert empty.pack(index).count == 0
    assert empty.index_of(np.array([0]), np.array([0])).tolist() == [-1]


@settings(max_examples=50, derandomize=True, deadline=None)
@given(placement=placements())
def test_find_and_index_of_are_inverse(placement: Placement) -> None:
    """Every key is found at its cell, and every cell at its key."""
    hot, index = placement.find(placement.keys)
    assert hot.all()
    assert index.tolist() == list(range(len(placement)))
    assert placement.index_of(placement.lanes, placement.rows).tolist() == index.tolist()


def test_files_hold_the_placement(tmp_path: Path) -> None:
    """What was saved is loaded."""
    path = tmp_path / "placement.npz"
    small().save(path)
    loaded = Placement.load(path)
    assert loaded.layout == LAYOUT
    for name in ("keys", "lanes", "rows"):
        assert getattr(loaded, name).tolist() == getattr(small(), name).tolist()
    assert len(loaded.pairs) == 0


def test_files_hold_second_cells(tmp_path: Path) -> None:
    """Row pairs are saved and loaded."""
    pairs = RowPairs(np.array([0, 3]), np.array([5, 4]), np.array([1, 7]))
    path = tmp_path / "placement.npz"
    Placement(KEYS, small().lanes, small().rows, LAYOUT, pairs).save(path)
    loaded = Placement.load(path).pairs
    for name in ("rows", "seconds", "masks"):
        assert getattr(loaded, name).tolist() == getattr(pairs, name).tolist()


def saved(path: Path, **changed: object) -> Path:
    """A placement file with some arrays changed or left out."""
    arrays: dict[str, object] = {
        "schema": np.int64(2),
        "layout": np.array([8, 16, 256, 1]),
        "keys": KEYS[:2],
        "lanes": np.array([0, 1]),
        "rows": np.array([0, 0]),
        "pair_rows": np.array([0]),
        "pair_seconds": np.array([5]),
        "pair_masks": np.array([3]),
    } | changed
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})  # type: ignore[arg-type]
    return path


HOSTILE_ARRAYS = {
    "another schema": {"schema": np.int64(1)},
    "a schema of words": {"schema": np.array("one")},
    "a schema with a fraction": {"schema": np.float64(2.5)},
    "two schemas": {"schema": np.array([1, 1])},
    "no keys": {"keys": None},
    "no layout": {"layout": None},
    "a short layout": {"layout": np.array([8, 16])},
    "a layout of words": {"layout": np.array(["a", "b", "c", "d"])},
    "no lanes at all": {"layout": np.array([0, 16, 256, 1])},
    "negative sizes": {"layout": np.array([-8, -16, 256, 1])},
    "a layout as large as the sky": {"layout": np.array([2**40, 2**20, 256, 1])},
    "pickled objects": {"keys": np.array([object, 1], object)},
    "keys of words": {"keys": np.array(["a", "b"])},
    "keys with fractions": {"keys": np.array([1.5, 2.5])},
    "negative keys": {"keys": np.array([-1, 2])},
    "rows that are no numbers": {"rows": np.array([np.nan, 0.0])},
    "a matrix of keys": {"keys": np.array([[1, 2], [3, 4]], np.uint64)},
    "a number for keys": {"keys": np.uint64(1)},
    "a cell outside": {"lanes": np.array([0, 99])},
    "a row too many": {"rows": np.array([0, 1, 2])},
    "no masks": {"pair_masks": None},
    "masks of words": {"pair_masks": np.array(["a"])},
    "a second row outside": {"pair_seconds": np.array([16])},
}


@pytest.mark.parametrize("kind", HOSTILE_ARRAYS)
def test_hostile_arrays(kind: str, tmp_path: Path) -> None:
    """A file with anything else in it is refused with one line."""
    path = saved(tmp_path / "placement.npz", **HOSTILE_ARRAYS[kind])
    with pytest.raises(BadInput) as caught:
        Placement.load(path)
    assert "\n" not in str(caught.value)


def test_hostile_bytes(tmp_path: Path) -> None:
    """Truncated and overwritten files, text and other formats are refused."""
    whole = saved(tmp_path / "whole.npz").read_bytes()
    rng = np.random.default_rng(5)
    hostile = [b"", b"\0", b"PK\x03\x04", b"keys,lanes,rows\n", whole[: len(whole) // 2]]
    hostile += [whole[:n] for n in range(1, len(whole), 97)]
    np.save(tmp_path / "one.npy", KEYS)
    hostile.append((tmp_path / "one.npy").read_bytes())
    path = tmp_path / "placement.npz"
    for content in hostile:
        path.write_bytes(content)
        with pytest.raises(BadInput, match="is not a placement file"):
            Placement.load(path)
    for _ in range(300):
        damaged = np.frombuffer(whole, np.uint8).copy()
        damaged[rng.integers(0, len(damaged), 3)] ^= rng.integers(1, 256, 3).astype(np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            loaded = Placement.load(path)
        except BadInput:
            continue
        # Bytes of the archive's directory may be free to change, contents are not.
        assert loaded.keys.tolist() == KEYS[:2].tolist()


def test_a_file_that_unpacks_to_more_than_any_placement(tmp_path: Path) -> None:
    """Is refused before it is unpacked."""
    path = tmp_path / "placement.npz"
    np.savez_compressed(path, schema=np.int64(2), keys=np.zeros(MAX_FILE_BYTES // 8, np.uint64))
    with pytest.raises(BadInput, match="bytes unpacked, allowed are"):
        Placement.load(path)


@pytest.mark.parametrize("missing", ["nowhere.npz", "."])
def test_no_file(missing: str, tmp_path: Path) -> None:
    """A file that is not there, and a folder."""
    with pytest.raises(BadInput, match="is not a placement file"):
        Placement.load(tmp_path / missing)
