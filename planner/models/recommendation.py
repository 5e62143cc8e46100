"""DLRM and NCF at the sizes of the TopoOpt study (NSDI 2023), and smaller on request.

Gradients of embedding tables are sparse: a batch's gradient holds the rows that it looked up.
"""

from __future__ import annotations

from planner.layers import Model
from planner.models.builder import Builder

DENSE_FEATURES = 13
"""Of an example of the Criteo data, for which DLRM was made; the study does not say its own."""


def dlrm(
    tables: int = 64,
    rows: int = 10_000_000,
    width: int = 128,
    bottom: int = 8,
    bottom_size: int = 2048,
    top: int = 16,
    top_size: int = 4096,
    batch: int = 128,
) -> Model:
    """Naumov et al. (2019); features meet by concatenation, as in the study's task graphs."""
    net = Builder()
    for index in range(bottom):
        taken = bottom_size if index else DENSE_FEATURES
        net.dense(f"bottom{index}", taken, bottom_size, after=None if index else ())
    met = [f"bottom{bottom - 1}"]
    met += [net.embedding(f"table{i}", rows, width, 1, sparse=True) for i in range(tables)]
    size = bottom_size + tables * width
    net.join("concatenate", size, after=tuple(met))
    for index in range(top):
        net.dense(f"top{index}", top_size if index else size, top_size)
    net.dense("score", top_size, 1)
    return net.model("dlrm", batch)


def ncf(
    tables: int = 64,
    rows: int = 1_000_000,
    mf_width: int = 64,
    mlp_width: int = 128,
    layers: int = 8,
    size: int = 4096,
    batch: int = 128,
) -> Model:
    """He et al. (WWW 2017), with `tables` tables of users and as many of items in each part."""
    net = Builder()
    parts = {
        part: tuple(
            net.embedding(f"{part}.{who}{i}", rows, width, 1, sparse=True)
            for who in ("users", "items")
            for i in range(tables)
        )
        for part, width in (("mf", mf_width), ("mlp", mlp_width))
    }
    product = net.join("mf.product", tables * mf_width, after=parts["mf"])
    taken = 2 * tables * mlp_width
    last = net.join("mlp.concatenate", taken, after=parts["mlp"])
    for index in range(layers):
        last = net.dense(f"mlp.dense{index}", size if index else taken, size)
    net.join("concatenate", size + tables * mf_width, after=(last, product))
    net.dense("score", size + tables * mf_width, 1)
    return net.model("ncf", batch)
