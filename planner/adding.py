"""What it costs a device to add two vectors, which ring members do at each step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import PlanError
from planner.profile_log import read_pairs

Sizes = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AddTable:
    """Times of adding two vectors, measured at some sizes; between and beyond these, lines.

    Attributes:
        size_bytes: of one vector, increasing, float64[k].
        seconds: float64[k].
        source: where they are from.

    Raises:
        PlanError: there are fewer than two sizes, or they do not increase.
    """

    size_bytes: Sizes
    seconds: NDArray[np.float64]
    source: str

    def __post_init__(self) -> None:
        if len(self.size_bytes) < 2 or (np.diff(self.size_bytes) <= 0).any():
            raise PlanError(
                f"{self.source}: need two or more lines of bytes and seconds, bytes increasing"
            )

    @classmethod
    def load(cls, path: Path) -> AddTable:
        """Read lines of bytes and seconds.

        The study's own table is such a file: sizes taken for bytes, its longest vectors move
        830 GB/s, which is what the memory of its devices can; taken for floats, four times that.
        """
        pairs = read_pairs(path, "table of additions")
        return cls(pairs[:, 0], pairs[:, 1], str(path))

    def __call__(self, size_bytes: Any) -> NDArray[np.float64]:
        """Seconds of adding two vectors of a size, element by element."""
        size = np.asarray(size_bytes, np.float64)
        inside = np.interp(size, self.size_bytes, self.seconds)
        beyond = np.maximum(size - self.size_bytes[-1], 0.0)
        slope = (self.seconds[-1] - self.seconds[-2]) / (self.size_bytes[-1] - self.size_bytes[-2])
        added: NDArray[np.float64] = inside + beyond * max(slope, 0.0)
        return added


V100_ADDS = AddTable(
    np.array([3e3, 10e3, 1.3e6, 2.6e6, 5.2e6, 671e6]),
    np.array([10.4e-6, 9.5e-6, 10.7e-6, 18.2e-6, 28.9e-6, 2434e-6]),
    "assumed: a V100, six points of the measurement that the what-if study published",
)
