"""Second cells for the hottest keys, so that a push fills its packets (section 4 of the design).

The switch adds the second cells of a row to the first ones when it is drained, so that they cost
nothing on the server's link, if one DRAIN asks for as many rows as it can. The hottest keys are
those that the most workers can level their lanes with.
"""

from __future__ import annotations

import numpy as np

from controller.placing.cooccurrence import by_cooccurrence, in_order, order_by_documents
from controller.placing.documents import Documents, deal, hottest
from controller.placing.measure import rounds_of
from host_stack.distinct import distinct
from host_stack.drain import MAX_RUN
from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray
from host_stack.layout import Layout
from host_stack.packing import ideal_packets
from host_stack.placement import Keys, Placement, RowPairs

PAIRED_ROWS = 2 * MAX_RUN
"""Rows with second cells: two full DRAINs ask for them, and for no fewer rows than any other."""
WORTHWHILE = 0.01
"""Rows are filled by co-occurrence if that leaves at least this share of them untouched."""
HELD_BACK = 10
"""One in so many documents is left out at first, to see whether co-occurrence is worthwhile."""
TRIAL_ROUNDS = 6
"""So many rounds are tried at least, and as many as these documents make."""


def pair_rows(placement: Placement, count: int) -> Placement:
    """Give the keys of the first `count` rows a second cell each, in rows behind all others.

    Raises `BadInput` if there are fewer rows with keys, or no rows are left for second cells.
    """
    layout, used = placement.layout, placement.used_rows
    if not 0 <= count <= min(used, layout.rows - used):
        raise BadInput(
            f"{count} rows of second cells: {used} of {layout.rows} rows are in use, allowed are "
            f"0 to {min(used, layout.rows - used)}"
        )
    rows = np.arange(count, dtype=np.int64)
    pairs = RowPairs(rows, used + rows, lane_masks(count, layout))
    return Placement(placement.keys, placement.lanes, placement.rows, layout, pairs)


def lane_masks(count: int, layout: Layout) -> IntArray:
    """int64[count]: how the lanes of successive pairs differ.

    By one bit, each by the next one: load gets from any lane to any other over log2(LANES) pairs,
    and one DRAIN asks for a run of paired rows (`host_stack.placement.next_masks`).
    """
    return 1 << np.arange(count, dtype=np.int64) % layout.lane_bits


def with_second_cells(
    hot: Keys, documents: list[Keys], draws: int, workers: int, layout: Layout, seed: int
) -> Placement:
    """Place by co-occurrence, or where that leaves no more rows untouched by heat, with pairs.

    Args:
        hot: uint64[n], the hot keys, hottest first.
        documents: uint64[m] each, unique keys.
        draws: documents of a push.
        workers: pushes of a round.
        layout: of the switch.
        seed: of the pushes on trial.
    """
    known = Documents.of(hot, documents)
    rows = ideal_packets(len(hot), layout.lanes)
    front = max(0, min(PAIRED_ROWS, rows, layout.rows - rows))
    if _worthwhile(documents, len(hot), draws, workers, layout.lanes, seed):
        placement = by_cooccurrence(known, draws, workers, layout, front)
    else:
        placement = in_order(known, known.index_of(hot), draws, workers, layout, front)
    return pair_rows(placement, front)


def _worthwhile(
    documents: list[Keys], size: int, draws: int, workers: int, lanes: int, seed: int
) -> bool:
    """Whether rows that are filled by co-occurrence are touched less often than by heat.

    Judged by documents that neither order knows, if there are enough.
    """
    if len(documents) < HELD_BACK:
        return True
    fitted = [keys for at, keys in enumerate(documents) if at % HELD_BACK]
    hot = hottest(fitted, size)
    known = Documents.of(hot, fitted)
    rank = np.empty(len(hot), np.int64)
    rank[order_by_documents(known)] = np.arange(len(hot))
    held = documents[::HELD_BACK]
    trial = max(TRIAL_ROUNDS, len(held) // (draws * workers))
    pushes = deal(held, draws, workers * trial, seed)
    by_heat = by_documents = 0
    for pushed in rounds_of(pushes, workers):
        keys = distinct(np.concatenate(pushed))
        index = known.index_of(keys)
        by_heat += len(distinct(index // lanes))
        by_documents += len(distinct(rank[index] // lanes))
    return by_documents <= (1 - WORTHWHILE) * by_heat
