"""CANDLE Uno at the size of the TopoOpt study (NSDI 2023), and smaller on request.

Each of five inputs (gene expression of a cell; descriptors and fingerprints of two drugs) passes
through feature layers of its own; their results and the two doses meet in the dense layers.
"""

from __future__ import annotations

from planner.layers import Model
from planner.models.builder import Builder

INPUTS = {
    "cell": 942,
    "drug1_descriptors": 5270,
    "drug1_fingerprints": 2048,
    "drug2_descriptors": 5270,
    "drug2_fingerprints": 2048,
}
DOSES = 2


def candle(
    feature_layers: int = 16,
    feature_size: int = 16384,
    layers: int = 8,
    size: int = 16384,
    batch: int = 256,
) -> Model:
    """The model; `feature_layers` are those of each input."""
    net = Builder()
    ends = []
    for name, width in INPUTS.items():
        for index in range(feature_layers):
            taken, after = (feature_size, None) if index else (width, ())
            last = net.dense(f"{name}.dense{index}", taken, feature_size, after=after)
        ends.append(last)
    taken = len(INPUTS) * feature_size + DOSES
    net.join("concatenate", taken, after=tuple(ends))
    for index in range(layers):
        net.dense(f"dense{index}", size if index else taken, size)
    net.dense("score", size, 1)
    return net.model("candle", batch)
