"""Documents of keys that occur together, for tests of placing."""

from __future__ import annotations

import numpy as np

from host_stack.placement import Keys


def topics(seed: int, documents: int = 1500, groups: int = 40, size: int = 60) -> list[Keys]:
    """Documents of a few hundred common keys, some of them in most documents, and of one topic.

    Keys of a topic are numbered as far apart as can be.
    """
    rng = np.random.default_rng(seed)
    common = np.linspace(0.9, 0.02, 400)
    made = []
    for _ in range(documents):
        topic = rng.integers(groups) + groups * np.flatnonzero(rng.random(size) < 0.6)
        keys = [np.flatnonzero(rng.random(len(common)) < common), len(common) + topic]
        made.append(np.sort(np.concatenate(keys)).astype(np.uint64))
    return made
