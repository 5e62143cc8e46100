"""Heats of keys, for tests."""

from __future__ import annotations

import numpy as np

from controller.identify import Heat


def zipf_heat(exponent: float = 1.1, keys: int = 20000) -> Heat:
    """Heat in which the share of batches falls with the rank."""
    share = np.minimum(1.0, 3.0 * np.arange(1, keys + 1, dtype=np.float64) ** -exponent)
    return Heat(np.arange(keys, dtype=np.uint64), share, 1000)
