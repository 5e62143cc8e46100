"""How long it takes until a program runs: translated and compiled, and from the cache."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from controller.artifacts import Artifact
from softswitch.dataplane import DataPlane


def load_times(artifact: Artifact, cached_runs: int = 5) -> dict[str, Any]:
    """Seconds to load a program with an empty cache, and the least with a filled one."""
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as folder:
        cache = Path(folder) / "cache"
        first = _load_s(artifact, cache)
        cached = [_load_s(artifact, cache) for _ in range(cached_runs)]
    return {
        "program": artifact.name,
        "lanes": artifact.layout.lanes,
        "first_s": first,
        "cached_s": min(cached),
    }


def _load_s(artifact: Artifact, cache: Path) -> float:
    begin = time.perf_counter()
    dataplane = DataPlane.load(artifact.device_config, cache_dir=cache)
    seconds = time.perf_counter() - begin
    dataplane.close()
    return seconds
