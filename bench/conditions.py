"""What a measurement depends on, and is worth nothing without."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from softswitch.compiler import find_compiler


def conditions() -> dict[str, Any]:
    """Processor, kernel, cores, load, compiler and versions, for JSON."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "compiler": find_compiler().version.splitlines()[0],
        "python": platform.python_version(),
        "libra": metadata.version("libra-ina"),
        "bmv2": _bmv2_version(),
    }


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _bmv2_version() -> str | None:
    """What `simple_switch_grpc --version` says; None where it is not installed."""
    try:
        done = subprocess.run(
            ["simple_switch_grpc", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        return "unknown"
    return (done.stdout or done.stderr).strip().splitlines()[0] if done.returncode == 0 else None
