"""Checkpoints of the server: one .npz, written beside and renamed, so that one is always whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import FloatArray
from host_stack.npz import reading_npz, require_schema, vector, whole

SCHEMA_VERSION = 2
_STATE = "state_"


def save_checkpoint(
    path: Path,
    rounds: int,
    steps: Sequence[int],
    parameters: FloatArray,
    state: dict[str, NDArray[np.float32]],
) -> None:
    """Write the model after `rounds` committed rounds, with the optimiser's `state` arrays.

    `steps` are the committed steps of each rank.
    """
    temporary = path.with_name(path.name + ".part")
    arrays = {_STATE + name: array for name, array in state.items()}
    with temporary.open("wb") as file:
        np.savez(
            file,
            schema=np.int64(SCHEMA_VERSION),
            rounds=np.int64(rounds),
            steps=np.array(steps, np.int64),
            parameters=parameters,
            **arrays,  # type: ignore[arg-type]
        )
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load_checkpoint(
    path: Path,
) -> tuple[int, list[int], FloatArray, dict[str, NDArray[np.float32]]]:
    """(rounds, steps, parameters, optimiser state) of a checkpoint; `BadInput` if it is none."""
    with reading_npz(path, "checkpoint") as file:
        require_schema(file, SCHEMA_VERSION)
        state = {
            name.removeprefix(_STATE): vector(file, name, np.float32)
            for name in file.files
            if name.startswith(_STATE)
        }
        steps = vector(file, "steps", np.int64).tolist()
        return whole(file, "rounds"), steps, vector(file, "parameters", np.float32), state
