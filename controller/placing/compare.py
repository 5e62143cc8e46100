"""All methods of placing on one trace: `libra place --compare`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from controller.byte_model import SizeCurve, cold_bytes
from controller.key_counts import KeyCounts
from controller.placing.documents import (
    MAX_DOCUMENTS,
    deal,
    example_keys,
    training_documents,
)
from controller.placing.measure import Cost, Round, measure, rounds_of
from controller.placing.methods import METHODS, Data, place
from host_stack.distinct import distinct
from host_stack.errors import BadInput
from host_stack.layout import BITMAP_LANES, Layout
from host_stack.placement import Keys, Placement
from workloads.progress import progress
from workloads.workload import Workload

SCHEMA = 1
ARRIVAL = ("hash", "sequential")
"""Methods that are compared with packets filled in the order of arrival, as before the paper."""
BASELINE = "sequential"
CURVE_LANES = (32, 64)
ENDLESS = 1 << 62
"""Examples of which the training part is a sample: so many that held-out ones are not in it."""


@dataclass(frozen=True)
class Trace:
    """The pushes of a data set, for placing and for judging.

    Attributes:
        counts: keys of the training part by heat.
        data: training documents, for methods.
        rounds: pushes of the held-out part.
        layout: of the switch.
        width: consecutive keys of a feature: the dimension of an embedding.
        features: that own keys so, from key 0 on.
    """

    counts: KeyCounts
    data: Data
    rounds: list[Round]
    layout: Layout
    width: int
    features: int

    @classmethod
    def of(cls, workload: Workload, sample: float, rounds: int, seed: int, layout: Layout) -> Trace:
        """Read the training part's keys, and deal the held-out examples into rounds of pushes."""
        workers, batch = workload.schedule.workers, workload.schedule.batch_size
        if batch > len(workload.test):
            raise BadInput(
                f"pushes of {batch} examples: the held-out part has {len(workload.test)}; compare "
                "with smaller ones"
            )
        data = Data(training_documents(workload, seed), batch, workers, seed)
        held = list(example_keys(workload.model, workload.test, MAX_DOCUMENTS, seed))
        pushes = deal(held, batch, rounds * workers, seed)
        counts = KeyCounts.of(*workload.sample_counts(sample, seed))
        model = workload.model
        return cls(
            counts, data, rounds_of(pushes, workers), layout, model.width, model.num_features
        )

    @property
    def keys_per_push(self) -> float:
        """Mean number of keys of a held-out push."""
        return float(np.mean([len(keys) for pushes in self.rounds for keys in pushes]))

    def curve(self, layout: Layout) -> SizeCurve:
        """Bytes against the size of the hot set, in pushes of examples that were not counted."""
        heat = replace(self.counts, population=ENDLESS).heat(self.data.draws)
        return SizeCurve.of(heat, self.keys_per_push, self.data.workers, layout)


@dataclass(frozen=True)
class Result:
    """What a method came to."""

    method: str
    cost: Cost
    rows: int
    pairs: int
    rows_per_embedding: float | None
    place_s: float

    @property
    def conflicts(self) -> float:
        """Write conflicts of a push, with the packing that the method is compared with."""
        return self.cost.arrival_conflicts if self.method in ARRIVAL else self.cost.conflicts

    def record(self) -> dict[str, Any]:
        """The same for JSON; docs/hot-parameters.md says what each is."""
        return {
            "packing": "arrival" if self.method in ARRIVAL else "lanes",
            "packets_ratio": self.cost.packets_ratio,
            **asdict(self.cost),
            "conflicts": self.conflicts,
            "rows": self.rows,
            "paired_rows": self.pairs,
            "rows_per_embedding": self.rows_per_embedding,
            "place_s": self.place_s,
        }


def compare(trace: Trace, hot: Keys, methods: tuple[str, ...] = tuple(METHODS)) -> list[Result]:
    """Place `hot` (uint64[n], hottest first) by each method and measure the held-out rounds."""
    if not trace.rounds:
        raise BadInput("the data set has too few examples for a round of all workers")
    results = []
    with progress("comparing methods", len(methods)) as advance:
        for method in methods:
            started = time.perf_counter()
            placement = place(method, hot, trace.layout, trace.data)
            place_s = time.perf_counter() - started
            cost = measure(placement, trace.rounds)
            pairs = len(placement.pairs)
            spread = rows_per_embedding(placement, trace.width, trace.features)
            results.append(Result(method, cost, placement.used_rows, pairs, spread, place_s))
            advance(1)
    return results


def rows_per_embedding(placement: Placement, width: int, features: int) -> float | None:
    """Over how many rows the keys of an embedding are spread, on average.

    Of features whose `width` keys are all placed; None if there are none, or keys are alone.
    """
    owned = np.flatnonzero(placement.keys < width * features)
    feature = placement.keys[owned].astype(np.int64) // width
    placed = np.bincount(feature, minlength=features) == width
    if width == 1 or not placed.any():
        return None
    whole = owned[placed[feature]]
    pairs = placement.keys[whole].astype(np.int64) // width * placement.layout.rows
    return len(distinct(pairs + placement.rows[whole])) / int(placed.sum())


def curves(trace: Trace) -> list[SizeCurve]:
    """The size curves of the switch's layout and of the other lane counts that are compared."""
    layout = trace.layout
    wanted = sorted({layout.lanes, *CURVE_LANES} & set(BITMAP_LANES))
    return [
        trace.curve(Layout(lanes, layout.rows, layout.window, layout.program)) for lanes in wanted
    ]


def report(
    trace: Trace, results: list[Result], sizes: list[SizeCurve], conditions: dict[str, Any]
) -> dict[str, Any]:
    """The contents of compare.json."""
    by_name = {result.method: result for result in results}
    nothing = trace.data.workers * cold_bytes(trace.keys_per_push)
    base = by_name[BASELINE].conflicts if BASELINE in by_name else 0.0
    return {
        "schema": SCHEMA,
        **conditions,
        "lanes": trace.layout.lanes,
        "workers": trace.data.workers,
        "embedding_width": trace.width,
        "rounds": len(trace.rounds),
        "documents": len(trace.data.documents),
        "server_bytes_without_hot_set": nothing,
        "methods": {
            result.method: {
                **result.record(),
                "conflicts_removed": 1 - result.conflicts / base if base else None,
                "bound": nothing / result.cost.server_bytes,
            }
            for result in results
        },
        "sizes": [
            {
                "lanes": curve.lanes,
                "best": curve.best,
                "bound": curve.bound,
                "hot": curve.sizes.tolist(),
                "server_bytes": curve.server_bytes.tolist(),
            }
            for curve in sizes
        ],
    }
