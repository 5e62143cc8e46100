"""Push and pull over the cold path, beside the C++ library: `python bench/kv.py --json FILE`.

One worker and one to four servers on the loopback interface, in processes of their own. Where
PSLITE_DIR names a build folder of ps-lite, a job of its own roles runs beside ours, and the two
take turns, so that a ratio compares what was measured next to each other.

Told is the median time of one push or pull until it is answered, in milliseconds (in FILE in
seconds), with keys that were used before ("again") and with a new array of them ("new"). ps-lite ÷
ours is the median of the ratios of neighbouring turns: above 1, ours is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.conditions import conditions
from host_stack.errors import BadInput, LibraError

SCHEMA = 1
KEYS = (100_000, 1_000_000, 10_000_000)
SERVERS = (1, 2, 4)
TURNS = 9
HOST = "127.0.0.1"
LIMIT_S = 120.0
DIRECTIONS = ("push", "pull")
KEYS_AGAIN = (True, False)


class NodeDied(LibraError):
    """A process of a measured job has ended before its time."""


class Job:
    """A running job of one implementation, of which the worker does what it is told."""

    def __init__(self, name: str, argv: Sequence[str], servers: int, stack: ExitStack) -> None:
        """Start scheduler, servers and worker, which end with `stack`."""
        self.name = name
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
        common = {
            "DMLC_PS_ROOT_URI": HOST,
            "DMLC_PS_ROOT_PORT": str(port),
            "DMLC_NODE_HOST": HOST,
            "DMLC_NUM_WORKER": "1",
            "DMLC_NUM_SERVER": str(servers),
        }
        roles = ["scheduler", *["server"] * servers, "worker"]
        self._nodes = [
            stack.enter_context(_process(argv, os.environ | common | {"DMLC_ROLE": role}))
            for role in roles
        ]
        self._worker = self._nodes[-1]
        self._answer()

    def take_turn(self, direction: str, keys: int, again: bool = True) -> float:
        """Seconds that a push or pull of so many keys takes: those of before, or a new array."""
        self._tell(f"{direction} {keys} {'again' if again else 'new'}\n")
        return float(self._answer())

    def end(self) -> None:
        """Let all nodes finish in order."""
        self._tell("\n")
        for node in self._nodes:
            if node.wait(LIMIT_S):
                raise NodeDied(f"a node of {self.name} ended with {node.returncode}")

    def _tell(self, line: str) -> None:
        assert self._worker.stdin is not None  # noqa: S101 - opened with a pipe
        self._worker.stdin.write(line)
        self._worker.stdin.flush()

    def _answer(self) -> str:
        assert self._worker.stdout is not None  # noqa: S101 - opened with a pipe
        line = self._worker.stdout.readline()
        if not line:
            raise NodeDied(f"the worker of {self.name} has ended; its error is above")
        return line


@contextmanager
def _process(argv: Sequence[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


NODE = Path(__file__).with_name("kv_pslite.cc")


def compile_pslite(build: Path, folder: Path, source: Path = NODE) -> Path:
    """Compile a C++ program against a build folder of ps-lite; `BadInput` where that fails."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    try:
        cache = (build / "CMakeCache.txt").read_text()
    except OSError as error:
        raise BadInput(f"PSLITE_DIR={build} is no build folder: {error.strerror}") from error
    home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", cache, re.MULTILINE)
    if compiler is None or home is None:
        raise BadInput("a C++ compiler and a build of ps-lite by cmake are needed")
    program = folder / source.stem
    done = subprocess.run(
        [
            *(compiler, "-O2", "-std=c++11", "-I", f"{home[1]}/include", "-o", str(program)),
            *(str(source), str(build / "libpslite.a"), "-lzmq", "-lprotobuf", "-lpthread"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BadInput(f"{source.name} does not compile: {done.stderr.strip().splitlines()[0]}")
    return program


def measure(
    servers: int, keys: Sequence[int], turns: int, theirs: Path | None
) -> Iterator[dict[str, Any]]:
    """The results of one number of servers: one for each size, direction and kind of keys."""
    with ExitStack() as stack:
        jobs = [Job("ours", [sys.executable, "-m", "bench.kv_node"], servers, stack)]
        if theirs is not None:
            jobs.append(Job("pslite", [str(theirs)], servers, stack))
        for number in keys:
            took = _turns(jobs, number, turns)
            for direction, again in product(DIRECTIONS, KEYS_AGAIN):
                yield _result(number, servers, direction, again, took)
        for job in jobs:
            job.end()


Took = dict[tuple[str, str, bool], list[float]]
"""Seconds by job, direction, and whether the keys were used before."""


def _turns(jobs: Sequence[Job], keys: int, turns: int) -> Took:
    """Let the jobs take turns; the first one of each kind is not counted."""
    took: Took = {}
    for turn in range(turns + 1):
        for again, direction in product(KEYS_AGAIN, DIRECTIONS):
            # Neither is always the first.
            for job in jobs if turn % 2 else reversed(jobs):
                seconds = job.take_turn(direction, keys, again)
                if turn:
                    took.setdefault((job.name, direction, again), []).append(seconds)
    return took


def _result(keys: int, servers: int, direction: str, again: bool, took: Took) -> dict[str, Any]:
    """One entry of `results`: medians, and the median of the ratios of neighbouring turns."""
    ours = took["ours", direction, again]
    theirs = took.get(("pslite", direction, again))
    ratios = None if theirs is None else [b / a for a, b in zip(ours, theirs, strict=True)]
    return {
        "keys": keys,
        "servers": servers,
        "direction": direction,
        "keys_again": again,
        "ours_s": statistics.median(ours),
        "pslite_s": None if theirs is None else statistics.median(theirs),
        "ratio": None if ratios is None else statistics.median(ratios),
        "turns": len(ours),
    }


def run(keys: Sequence[int], servers: Sequence[int], turns: int) -> dict[str, Any]:
    """Measure all; the contents of the JSON file (docs/speed.md)."""
    build = os.environ.get("PSLITE_DIR")
    with tempfile.TemporaryDirectory(prefix="libra-bench-") as folder:
        theirs = None if not build else compile_pslite(Path(build), Path(folder))
        results = [result for number in servers for result in measure(number, keys, turns, theirs)]
    return {"schema": SCHEMA, "conditions": conditions(), "results": results}


def show(record: dict[str, Any]) -> None:
    """Print the results as a table."""
    table = Table("keys", "", "servers", "", "ours", "ps-lite", "ps-lite ÷ ours")
    for result in record["results"]:
        theirs, ratio = result["pslite_s"], result["ratio"]
        table.add_row(
            f"{result['keys']:,}",
            "again" if result["keys_again"] else "new",
            str(result["servers"]),
            result["direction"],
            f"{result['ours_s'] * 1000:.2f} ms",
            "-" if theirs is None else f"{theirs * 1000:.2f} ms",
            "-" if ratio is None else f"{ratio:.2f}",
        )
    Console().print(table)


def _help(text: str, *default: int) -> str:
    return f"{text} (default: {' '.join(map(str, default))})"


def main() -> int:
    """Read the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="kv", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    for name, default, text in (
        ("keys", KEYS, "keys of one push or pull, a float32 each, in all"),
        ("servers", SERVERS, "processes that share them"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            nargs="+",
            default=default,
            metavar="N",
            help=_help(text, *default),
        )
    text = "turns of each that are counted; one more goes before"
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N", help=_help(text, TURNS))
    given = parser.parse_args()
    try:
        if min(*given.keys, *given.servers, given.turns) < 1:
            raise BadInput("keys, servers and turns must be 1 or more")
        if given.json is not None and not given.json.absolute().parent.is_dir():
            raise BadInput(f"--json {given.json}: its folder does not exist")
        if given.json is not None and given.json.is_dir():
            raise BadInput(f"--json {given.json} is a folder: name a file")
        record = run(given.keys, given.servers, given.turns)
    except LibraError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    show(record)
    if given.json is not None:
        given.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
