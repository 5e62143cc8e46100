"""Batches of updates and their atomicity (specification, section "Batch Atomicity").

Short version: CONTINUE_ON_ERROR applies each update for itself; ROLLBACK_ON_ERROR takes back, by
opposite updates, what was applied before the first error; DATAPLANE_ATOMIC holds all writes back
and gives them to the data plane between two packets once every update is known to be valid.

The caller holds the device's lock, so that nobody else reads or writes half of a batch.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
from finsy.proto import p4r

from softswitch.errors import SoftSwitchError
from softswitch.p4runtime.entities import DELETE, INSERT, MODIFY, apply_update, kind_of_update
from softswitch.p4runtime.errors import P4RuntimeError, exhausted, from_engine, invalid
from softswitch.p4runtime.pipeline import Pipeline

LOGGER = logging.getLogger(__name__)

Results = list[P4RuntimeError | None]
"""One item per update, None where it was applied."""

Opposite = Iterable[p4r.Update]
"""Updates that take one update back; made when they are needed."""


Apply = Callable[[Pipeline, p4r.Update], None]
"""Checks and applies one update."""


def write_batch(
    pipeline: Pipeline,
    updates: Sequence[p4r.Update],
    atomicity: int,
    check: Callable[[p4r.Update], None],
) -> Results:
    """Apply the updates of a Write; raises P4RuntimeError for an unknown atomicity.

    `check` raises P4RuntimeError for an update that the controller may not make.
    """

    def apply(pipeline: Pipeline, update: p4r.Update) -> None:
        check(update)
        apply_update(pipeline, update)

    if atomicity == p4r.WriteRequest.CONTINUE_ON_ERROR:
        return [attempt(apply, pipeline, update) for update in updates]
    if atomicity == p4r.WriteRequest.ROLLBACK_ON_ERROR:
        return _all_or_none(pipeline, updates, apply)
    if atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC:
        return _all_at_once(pipeline, updates, apply)
    raise invalid(
        f"atomicity {atomicity} is unknown; allowed are CONTINUE_ON_ERROR, ROLLBACK_ON_ERROR and "
        "DATAPLANE_ATOMIC"
    )


def attempt(
    work: Callable[[Pipeline, Any], None], pipeline: Pipeline, item: Any
) -> P4RuntimeError | None:
    """Do one element of a batch; return its error, if any."""
    try:
        work(pipeline, item)
    except SoftSwitchError as error:
        return from_engine(error)
    except Exception:
        LOGGER.exception("an element of a batch failed")
        return P4RuntimeError(grpc.StatusCode.INTERNAL, "internal error; the switch's log has more")
    return None


def _all_or_none(pipeline: Pipeline, updates: Sequence[p4r.Update], apply: Apply) -> Results:
    opposites: list[Opposite] = []
    for number, update in enumerate(updates):
        error = _do(pipeline, update, apply, opposites)
        if error is not None:
            _take_back(pipeline, opposites)
            return _aborted(len(updates), number, error)
    return [None] * len(updates)


def _all_at_once(pipeline: Pipeline, updates: Sequence[p4r.Update], apply: Apply) -> Results:
    opposites: list[Opposite] = []
    ends: list[int] = []
    with pipeline.dataplane.hold_writes() as held:
        for number, update in enumerate(updates):
            error = _do(pipeline, update, apply, opposites)
            if error is not None:
                _take_back(pipeline, opposites)
                return _aborted(len(updates), number, error)
            ends.append(len(held))
        failed = 0

        def undo(applied: int) -> None:
            nonlocal failed
            failed = bisect_right(ends, applied)
            # The update that failed counts as applied if some of its writes were.
            kept = failed + (applied > (ends[failed - 1] if failed else 0))
            _take_back(pipeline, opposites[kept:])
            held.discard()
            _take_back(pipeline, opposites[:kept])

        if not held.apply(undo):
            error = exhausted("the data plane has no memory for this update")
            return _aborted(len(updates), failed, error)
    return [None] * len(updates)


def _do(
    pipeline: Pipeline, update: p4r.Update, apply: Apply, opposites: list[Opposite]
) -> P4RuntimeError | None:
    """Apply one update and note what takes it back."""
    opposite: Opposite = ()

    def work(pipeline: Pipeline, update: p4r.Update) -> None:
        nonlocal opposite
        opposite = _opposite(pipeline, update)
        apply(pipeline, update)

    error = attempt(work, pipeline, update)
    if error is None:
        opposites.append(opposite)
    return error


def _opposite(pipeline: Pipeline, update: p4r.Update) -> Opposite:
    """Return what takes `update` back.

    The update itself is not checked here: if it is refused, nobody wants its opposite.
    """
    kind, message = kind_of_update(update)
    if update.type == INSERT:
        return (p4r.Update(type=DELETE, entity=update.entity),)
    if kind.before is not None:
        entities = kind.before(pipeline, update.type, message)
    else:
        entities = kind.read(pipeline, message)
    opposite = INSERT if update.type == DELETE else MODIFY
    return (p4r.Update(type=opposite, entity=entity) for entity in entities)


def _take_back(pipeline: Pipeline, opposites: Sequence[Opposite]) -> None:
    for opposite in reversed(opposites):
        for update in opposite:
            error = attempt(apply_update, pipeline, update)
            if error is not None:
                LOGGER.error("a batch could not be rolled back: %s", error.message)


def _aborted(count: int, failed: int, error: P4RuntimeError) -> Results:
    """Return the results of a batch that was not applied because of one update."""
    others = P4RuntimeError(grpc.StatusCode.ABORTED, f"not applied: update {failed} failed")
    results: Results = [others] * count
    results[failed] = error
    return results
