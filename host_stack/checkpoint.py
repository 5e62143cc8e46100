"""Checkpoints of the server: one .npz, written beside and renamed, so that one is always whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import FloatArray
from host_stack.layout import MAX_ROUND, MAX_STEP
from host_stack.npz import reading_npz, require_schema, vector, whole
from host_stack.writing import put_in_place, writing

SCHEMA_VERSION = 2
_STATE = "state_"
_NAMES = ("schema", "rounds", "steps", "parameters")


def save_checkpoint(
    path: Path,
    rounds: int,
    steps: Sequence[int],
    parameters: FloatArray,
    state: dict[str, NDArray[np.float32]],
) -> None:
    """Write the model after `rounds` committed rounds, with the optimiser's `state` arrays.

    `steps` are the committed steps of each rank. It is on disk when this returns; `CannotWrite`
    says why it is not, and leaves the one before.
    """
    temporary = path.with_name(path.name + ".part")
    arrays = {_STATE + name: array for name, array in state.items()}
    with writing(path):
        try:
            with temporary.open("wb") as file:
                np.savez(
                    file,
                    # What must be there comes last: a damaged directory loses its last entries.
                    **arrays,  # type: ignore[arg-type]
                    schema=np.int64(SCHEMA_VERSION),
                    rounds=np.int64(rounds),
                    steps=np.array(steps, np.int64),
                    parameters=parameters,
                )
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)  # it would fill the disk for nothing
            raise
        put_in_place(temporary, path)


def load_checkpoint(
    path: Path,
) -> tuple[int, list[int], FloatArray, dict[str, NDArray[np.float32]]]:
    """(rounds, steps, parameters, optimiser state) of a checkpoint; `BadInput` if it is none."""
    with reading_npz(path, "checkpoint") as file:
        require_schema(file, SCHEMA_VERSION)
        for name in file.files:
            if name not in _NAMES and not name.startswith(_STATE):
                raise ValueError(f"it has an array {name!r}")
        state = {
            name.removeprefix(_STATE): vector(file, name, np.float32)
            for name in file.files
            if name.startswith(_STATE)
        }
        rounds, steps = whole(file, "rounds"), vector(file, "steps", np.int64).tolist()
        if not 0 <= rounds <= MAX_ROUND or not all(0 <= count < MAX_STEP for count in steps):
            raise ValueError(f"{rounds} rounds, of each worker {steps} steps")
        return rounds, steps, vector(file, "parameters", np.float32), state
