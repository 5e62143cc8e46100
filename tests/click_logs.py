"""Small click logs in the formats of Criteo and Avazu."""

from __future__ import annotations

import numpy as np

from workloads import avazu


def criteo_lines(number: int, seed: int = 1) -> list[str]:
    """Random lines, some of whose columns are empty."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(number):
        numbers = [int(x) for x in random.geometric(0.05, 13) - 3]
        values = [f"{int(x) * 2654435761 % 2**32:08x}" for x in random.zipf(1.4, 26) % 999]
        columns = [str(int(random.integers(2))), *map(str, numbers), *values]
        for at in 1 + random.choice(39, 5, replace=False):
            columns[at] = ""
        lines.append("\t".join(columns))
    return lines


def avazu_lines(number: int, seed: int = 1) -> list[str]:
    """The header and random lines in the order of time."""
    random = np.random.default_rng(seed)
    lines = [avazu.HEADER]
    for at in range(number):
        values = [f"{int(x) * 2654435761 % 2**32:08x}" for x in random.zipf(1.4, 20) % 999]
        hour = f"141021{at * 24 // number:02d}"
        columns = [str(10**18 + at), str(int(random.integers(2))), hour, "1005", *values]
        lines.append(",".join(columns))
    return lines
