"""Checkpoints: whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_stack import checkpoint as module
from host_stack.checkpoint import load_checkpoint, save_checkpoint
from host_stack.errors import BadInput, CannotWrite
from host_stack.layout import MAX_STEP

PARAMETERS = np.array([0.1, -np.inf, np.nan, -0.0, 1e-40], np.float32)
STEPS = [25, 24]
STATE = {"accumulator": np.arange(5, dtype=np.float32)}


class Crash(BaseException):
    """What a kill in the middle looks like to the code above it."""


def test_every_bit_comes_back(tmp_path: Path) -> None:
    """Rounds, parameters and the optimiser's arrays, NaN and -0 included."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)
    rounds, steps, parameters, state = load_checkpoint(path)
    assert steps == STEPS
    assert rounds == 25
    assert parameters.tobytes() == PARAMETERS.tobytes()
    assert parameters.dtype == np.float32
    assert list(state) == ["accumulator"]
    assert state["accumulator"].tobytes() == STATE["accumulator"].tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_a_new_checkpoint_replaces_the_old(tmp_path: Path) -> None:
    """The file of the path is always the newest whole one."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)
    save_checkpoint(path, 50, STEPS, PARAMETERS[:2], {})
    rounds, steps, parameters, state = load_checkpoint(path)
    assert steps == STEPS
    assert (rounds, len(parameters), state) == (50, 2, {})


@pytest.mark.parametrize("moment", ["write", "flush", "rename"])
def test_a_crash_leaves_the_old_checkpoint(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the writer dies, the old file stays whole; the next writer is not hindered."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)

    def half_written(file: object, **_arrays: object) -> None:
        file.write(b"PK\x03\x04 half of a checkpoint")  # type: ignore[attr-defined]
        raise Crash

    def crash(*_arguments: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        if moment == "write":
            patched.setattr(module.np, "savez", half_written)
        elif moment == "flush":
            patched.setattr(module.os, "fsync", crash)
        else:
            patched.setattr(Path, "replace", crash)
        with pytest.raises(Crash):
            save_checkpoint(path, 50, STEPS, PARAMETERS * 2, STATE)
    rounds, _, parameters, _ = load_checkpoint(path)
    assert rounds == 25
    assert parameters.tobytes() == PARAMETERS.tobytes()
    save_checkpoint(path, 75, STEPS, PARAMETERS, STATE)
    assert load_checkpoint(path)[0] == 75


def test_contents_are_on_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is flushed before it is renamed, or a power cut could leave an empty one.

    Behind it the folder is, or a power cut could bring the old one back.
    """
    order = []
    fsync, replace = module.os.fsync, Path.replace
    monkeypatch.setattr(
        module.os, "fsync", lambda handle: (order.append("fsync"), fsync(handle))[1]
    )
    monkeypatch.setattr(
        Path, "replace", lambda old, new: (order.append("rename"), replace(old, new))[1]
    )
    save_checkpoint(tmp_path / "checkpoint.npz", 1, STEPS, PARAMETERS, {})
    assert order == ["fsync", "rename", "fsync"]


HOSTILE_ARRAYS = {
    "another schema": {"schema": np.int64(9)},
    "no schema": {"schema": None},
    "two schemas": {"schema": np.array([1, 1])},
    "no rounds": {"rounds": None},
    "rounds of words": {"rounds": np.array("many")},
    "no steps": {"steps": None},
    "steps of float64": {"steps": np.zeros(2)},
    "no parameters": {"parameters": None},
    "parameters of float64": {"parameters": np.zeros(3)},
    "a matrix": {"parameters": np.zeros((2, 2), np.float32)},
    "pickled objects": {"parameters": np.array([object], object)},
    "negative rounds": {"rounds": np.int64(-1)},
    "more rounds than there can be": {"rounds": np.int64(1 << 40)},
    "negative steps": {"steps": np.array([3, -1])},
    "more steps than there can be": {"steps": np.array([3, MAX_STEP])},
    "an unknown array": {"stat_accumulator": np.zeros(3, np.float32)},
    "state of float64": {"state_accumulator": np.zeros(3)},
}


@pytest.mark.parametrize("kind", HOSTILE_ARRAYS)
def test_hostile_arrays(kind: str, tmp_path: Path) -> None:
    """A file with anything else in it is refused with one line."""
    path = tmp_path / "checkpoint.npz"
    arrays = {
        "schema": np.int64(2),
        "rounds": np.int64(2),
        "steps": np.array(STEPS),
        "parameters": PARAMETERS,
    } | HOSTILE_ARRAYS[kind]
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(BadInput) as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_damaged_files(tmp_path: Path) -> None:
    """Truncation anywhere is noticed, and so is what is no archive."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)
    whole = path.read_bytes()
    for content in [b"", b"PK", b"\x93NUMPY", *(whole[:n] for n in range(0, len(whole), 61))]:
        path.write_bytes(content)
        with pytest.raises(BadInput, match="is not a checkpoint"):
            load_checkpoint(path)
    with pytest.raises(BadInput, match="is not a checkpoint"):
        load_checkpoint(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("bit", [0, 5])
def test_a_flipped_bit_is_noticed_or_without_meaning(bit: int, tmp_path: Path) -> None:
    """Of every byte of the file."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)
    saved = path.read_bytes()
    refused = 0
    for at in range(len(saved)):
        damaged = bytearray(saved)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            rounds, steps, parameters, state = load_checkpoint(path)
        except BadInput:
            refused += 1
        else:
            assert (rounds, steps, list(state)) == (25, STEPS, ["accumulator"])
            assert parameters.tobytes() == PARAMETERS.tobytes()
            assert state["accumulator"].tobytes() == STATE["accumulator"].tobytes()
    assert refused > len(saved) // 2


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    """One line says so, and nothing that is half written stays there."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)
    part = tmp_path / "checkpoint.npz.part"
    part.symlink_to("/dev/full")
    with pytest.raises(
        CannotWrite, match=r"checkpoint\.npz cannot be written: No space left"
    ) as said:
        save_checkpoint(path, 50, STEPS, PARAMETERS, STATE)
    assert "\n" not in str(said.value)
    assert not part.is_symlink()
    assert load_checkpoint(path)[0] == 25


def test_changed_bytes_never_load_as_other_parameters(tmp_path: Path) -> None:
    """The archive's check sums catch what a disk has changed."""
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, 25, STEPS, PARAMETERS, STATE)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(6)
    refused = 0
    for _ in range(300):
        damaged = whole.copy()
        damaged[rng.integers(0, len(whole))] ^= rng.integers(1, 256, dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            _, _, parameters, _ = load_checkpoint(path)
        except BadInput:
            refused += 1
        else:
            assert parameters.tobytes() == PARAMETERS.tobytes()
    assert refused > 100
