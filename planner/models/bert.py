"""BERT, the encoder with its pooler (Devlin et al., NAACL 2019), at TopoOpt's size by default.

Gradients of the word table are dense, as frameworks make them unless told otherwise. The heads of
pre-training, which tasks replace, are left out.
"""

from __future__ import annotations

from planner.layers import Model
from planner.models.builder import Builder

WORDS, POSITIONS, SEGMENTS = 30522, 512, 2
_WIDEN = 4


def bert(layers: int = 12, hidden: int = 1024, sequence: int = 64, batch: int = 16) -> Model:
    """The model; the number of heads changes neither its size nor its arithmetic."""
    net = Builder()
    tables = tuple(
        net.embedding(name, rows, hidden, sequence, sparse=False)
        for name, rows in (("words", WORDS), ("positions", POSITIONS), ("segments", SEGMENTS))
    )
    net.join("embeddings.add", hidden * sequence, after=tables)
    last = net.normalisation("embeddings.norm", hidden, hidden * sequence)
    for index in range(layers):
        last = _encoder(net, f"layer{index}", last, hidden, sequence)
    net.join("first_token", hidden)
    net.dense("pooler", hidden, hidden)
    return net.model("bert", batch)


def _encoder(net: Builder, name: str, taken: str, hidden: int, tokens: int) -> str:
    values = hidden * tokens
    heads = tuple(
        net.dense(f"{name}.{part}", hidden, hidden, rows=tokens, after=(taken,))
        for part in ("query", "key", "value")
    )
    net.attention(f"{name}.attention", tokens, hidden, heads)
    projected = net.dense(f"{name}.projection", hidden, hidden, rows=tokens)
    net.join(f"{name}.add1", values, after=(projected, taken))
    attended = net.normalisation(f"{name}.norm1", hidden, values)
    net.dense(f"{name}.widen", hidden, _WIDEN * hidden, rows=tokens)
    narrowed = net.dense(f"{name}.narrow", _WIDEN * hidden, hidden, rows=tokens)
    net.join(f"{name}.add2", values, after=(narrowed, attended))
    return net.normalisation(f"{name}.norm2", hidden, values)
