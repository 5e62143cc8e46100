"""Points of a round at which a process waits for the runner, so that a fault hits it just there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable

from host_stack.errors import BadInput, LibraError
from host_stack.layout import MAX_ROUND
from workloads.training import emit

WORKER_PHASES = ("compute", "push")
"""`compute`: a worker begins a round. `push`: all of its gradients are acknowledged, and nobody
has been told so."""
SERVER_PHASES = ("drain", "update")
"""`drain`: all workers are done, nothing was read from the switch. `update`: the optimiser was
applied, nobody has been told so."""
PHASES = (*WORKER_PHASES, *SERVER_PHASES)


class Holds:
    """The points of one process, from texts such as `12:drain`."""

    def __init__(self, points: Iterable[str] = ()) -> None:
        self._points = {_point(text) for text in points}
        self._lock = threading.Lock()  # shards of a job reach a point in threads of their own

    def at(self, phase: str, round_: int) -> None:
        """Wait for the runner if this is one of the points; each counts once."""
        with self._lock:
            if (round_, phase) not in self._points:
                return
            self._points.discard((round_, phase))
            emit("hold", round=round_, phase=phase)
            if not sys.stdin.readline():
                raise LibraError("the runner ended in the middle of a round")


def _point(text: str) -> tuple[int, str]:
    round_, _, phase = text.partition(":")
    if not round_.isdecimal() or int(round_) > MAX_ROUND or phase not in PHASES:
        raise BadInput(f"hold {text!r}: write ROUND:PHASE, PHASE one of {', '.join(PHASES)}")
    return int(round_), phase
