"""Layers in the order of the forward pass, each after the last one unless told otherwise."""

from __future__ import annotations

from planner.layers import Kind, Layer, Model


class Builder:
    """Collects the layers of a model; every method returns the name of the layer that it added.

    `after` names the layers that the new one takes; without it, it takes the last one added.
    """

    def __init__(self) -> None:
        self._layers: list[Layer] = []

    def model(self, name: str, batch: int) -> Model:
        """The model of what was added."""
        return Model(name, batch, tuple(self._layers))

    def convolution(
        self,
        name: str,
        size: int,
        channels: tuple[int, int],
        side: int,
        *,
        bias: bool = False,
        after: tuple[str, ...] | None = None,
    ) -> str:
        """A convolution of size × size between `channels`, `side`² outputs for each channel."""
        taken, given = channels
        weights = size * size * taken * given
        tensors = (weights, given) if bias else (weights,)
        flops = 2.0 * weights * side * side
        return self._add(name, Kind.CONVOLUTION, tensors, flops, given * side * side, after)

    def normalisation(
        self, name: str, channels: int, outputs: int, after: tuple[str, ...] | None = None
    ) -> str:
        """Batch or layer normalisation with a scale and an offset for each channel."""
        return self._add(
            name, Kind.NORMALISATION, (channels, channels), 4.0 * outputs, outputs, after
        )

    def dense(
        self,
        name: str,
        taken: int,
        given: int,
        *,
        rows: int = 1,
        after: tuple[str, ...] | None = None,
    ) -> str:
        """A fully connected layer with bias; `rows` vectors of an example pass through it."""
        flops = 2.0 * taken * given * rows
        return self._add(name, Kind.DENSE, (taken * given, given), flops, given * rows, after)

    def embedding(self, name: str, rows: int, width: int, lookups: int, *, sparse: bool) -> str:
        """A table; an example looks up `lookups` rows, of which nothing is computed."""
        layer = Layer(
            name,
            Kind.EMBEDDING,
            (rows * width,),
            0.0,
            width * lookups,
            lookups=lookups if sparse else 0,
            rows=rows,
        )
        self._layers.append(layer)
        return name

    def attention(self, name: str, tokens: int, width: int, after: tuple[str, ...]) -> str:
        """Scores of all pairs of tokens, and the weighted sums of values."""
        return self._add(
            name, Kind.ATTENTION, (), 4.0 * tokens * tokens * width, tokens * width, after
        )

    def join(self, name: str, outputs: int, after: tuple[str, ...] | None = None) -> str:
        """A sum, a concatenation or a pooling."""
        return self._add(name, Kind.JOIN, (), float(outputs), outputs, after)

    def _add(
        self,
        name: str,
        kind: Kind,
        tensors: tuple[int, ...],
        flops: float,
        outputs: int,
        after: tuple[str, ...] | None,
    ) -> str:
        if after is None:
            after = (self._layers[-1].name,) if self._layers else ()
        self._layers.append(Layer(name, kind, tensors, flops, outputs, after))
        return name
