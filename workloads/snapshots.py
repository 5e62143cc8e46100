"""Snapshots of a model in training, on disk, so that its quality can be measured afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray
from host_stack.writing import writing

_ENDING = ".npy"


class Snapshots:
    """A folder with a file for each number of rounds after which the model was saved."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, rounds: int, parameters: FloatArray) -> None:
        """Save float32[num_keys] `parameters`; replaces what a server before a crash has saved."""
        path = self._folder / f"{rounds:07d}{_ENDING}"
        with writing(path):
            self._folder.mkdir(exist_ok=True)
            temporary = path.with_name(path.name + ".part")
            with temporary.open("wb") as file:
                np.save(file, parameters)
            temporary.replace(path)

    def load(self) -> Iterator[tuple[int, FloatArray]]:
        """(rounds, parameters) of each, by rounds; `BadInput` if there is none."""
        paths = sorted(self._folder.glob(f"*{_ENDING}"))
        if not paths:
            raise BadInput(f"{self._folder} holds no snapshot of a model")
        for path in paths:
            yield int(path.stem), np.load(path, mmap_mode="r", allow_pickle=False)
