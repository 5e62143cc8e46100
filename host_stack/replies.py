"""The server's answers to its workers, as bytes: go on, stay, or move to another incarnation."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from host_stack.control import Answer, Kind, Known, Request, bitmap_of
from host_stack.fixedpoint import IntArray
from host_stack.incarnation import Incarnation
from host_stack.kv.app import SimpleRequest
from host_stack.layout import make_tag
from host_stack.progress import Progress

KEPT_ROUNDS = 8
"""Committed rounds of which the changed rows are kept, for workers that are behind."""


@dataclass(frozen=True)
class Asking:
    """A worker's request, and what it says."""

    request: SimpleRequest
    message: Request


class Replies:
    """What workers are told of an incarnation and of the rounds committed in it."""

    def __init__(self, progress: Progress) -> None:
        """Tell of `progress`, which others change; `enter` comes first."""
        self._progress = progress
        self._changed: deque[bytes] = deque(maxlen=KEPT_ROUNDS)

    def enter(self, incarnation: Incarnation) -> None:
        """Go on in an incarnation, in which nothing is committed yet."""
        self._incarnation = incarnation
        self._changed.clear()

    def commit(self, changed: IntArray) -> None:
        """Note int64[n] rows that changed in a round that is committed now."""
        self._changed.append(bitmap_of(changed, self._incarnation.placement.used_rows))

    def go(self, rank: int, asked: Request) -> bytes:
        """A worker may go on; with the rows that changed since it heard of a commit."""
        missed = self._progress.round - asked.committed
        bitmaps = list(self._changed)[-missed:] if missed else []
        if len(bitmaps) != missed:
            bitmaps = []  # too long ago: the worker fetches everything
        return Answer(
            Kind.GO,
            make_tag(self._incarnation.epoch, self._progress.target(rank)),
            steps=self._progress.committed[rank],
            committed=self._progress.round,
            bitmaps=len(bitmaps),
            rows=b"".join(bitmaps),
        ).encode()

    def stay(self, rank: int, asked: Request, known: Known) -> bytes:
        """A worker's round is open; `known` is what has come of its step."""
        committed = self._progress.committed[rank]
        return Answer(Kind.OPEN, asked.tag, known, committed, self._progress.round).encode()

    def moved(self, rank: int, asked: Request) -> bytes:
        """The job is in this incarnation, and where the worker goes on in it."""
        incarnation = replace(self._incarnation, round=self._progress.target(rank))
        return Answer(
            Kind.MOVED,
            asked.tag,
            steps=self._progress.committed[rank],
            committed=self._progress.round,
            incarnation=incarnation.encode(asked.version),
        ).encode()
