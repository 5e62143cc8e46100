"""The server's optimisers: what a round's aggregated gradient does to the parameters.

All arithmetic is float32 and elementwise, so the result is a function of the gradients alone, bit
for bit (the design, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads import options as opt
from workloads.errors import WorkloadError
from workloads.examples import Float32Array

SGD_DEFAULTS: Mapping[str, float] = {"learning_rate": 0.1}
ADAGRAD_DEFAULTS: Mapping[str, float] = {
    "learning_rate": 0.1,
    "epsilon": 1e-8,
    "initial_accumulator": 0.0,
}


class Optimizer(Protocol):
    """Updates the touched part of a parameter vector in place."""

    name: str

    def apply(self, params: Float32Array, keys: NDArray[np.uint64], gradient: Float32Array) -> None:
        """Update `params`, float32[num_keys], at `keys`, uint64[n] and unique.

        `gradient`, float32[n], is the sum over workers. Raises `WorkloadError` for arrays that do
        not fit each other or the optimiser; nothing is changed then.
        """
        ...

    def state(self) -> dict[str, Float32Array]:
        """Return a copy of the state that a checkpoint must hold beside the parameters."""
        ...

    def load_state(self, state: Mapping[str, Float32Array]) -> None:
        """Take over what `state` returned; `WorkloadError` if names, shapes or dtypes differ."""
        ...


class Sgd:
    """θ ← θ - learning_rate · g."""

    name = "sgd"

    def __init__(self, num_keys: int, *, learning_rate: float) -> None:
        self._num_keys = num_keys
        self._learning_rate = np.float32(learning_rate)

    def apply(self, params: Float32Array, keys: NDArray[np.uint64], gradient: Float32Array) -> None:
        """See `Optimizer.apply`."""
        at = _positions(self._num_keys, params, keys, gradient)
        params[at] -= self._learning_rate * gradient

    def state(self) -> dict[str, Float32Array]:
        """No array: SGD has no state."""
        return {}

    def load_state(self, state: Mapping[str, Float32Array]) -> None:
        """See `Optimizer.load_state`."""
        _check_state(self.name, state, {})


class Adagrad:
    """A ← A + g²; θ ← θ - learning_rate · g / (√A + epsilon), elementwise (Duchi et al., 2011)."""

    name = "adagrad"

    def __init__(
        self, num_keys: int, *, learning_rate: float, epsilon: float, initial_accumulator: float
    ) -> None:
        self._num_keys = num_keys
        self._learning_rate = np.float32(learning_rate)
        self._epsilon = np.float32(epsilon)
        self._accumulator = np.full(num_keys, initial_accumulator, dtype=np.float32)

    def apply(self, params: Float32Array, keys: NDArray[np.uint64], gradient: Float32Array) -> None:
        """See `Optimizer.apply`."""
        at = _positions(self._num_keys, params, keys, gradient)
        accumulator = self._accumulator[at] + np.square(gradient)
        self._accumulator[at] = accumulator
        params[at] -= self._learning_rate * gradient / (np.sqrt(accumulator) + self._epsilon)

    def state(self) -> dict[str, Float32Array]:
        """`accumulator`: float32[num_keys], the sums of squared gradients."""
        return {"accumulator": self._accumulator.copy()}

    def load_state(self, state: Mapping[str, Float32Array]) -> None:
        """See `Optimizer.load_state`."""
        _check_state(self.name, state, {"accumulator": (self._num_keys,)})
        self._accumulator = state["accumulator"].copy()


def make_optimizer(name: str, num_keys: int, **optimizer_options: float) -> Optimizer:
    """Build the optimiser `name` for a model of `num_keys` parameters.

    - `sgd`: option `learning_rate`
    - `adagrad`: options `learning_rate`, `epsilon`, `initial_accumulator`

    Raises `WorkloadError` for an unknown name or option, or a value out of range.
    """
    if name == "sgd":
        opt.check_names("optimiser sgd", optimizer_options, SGD_DEFAULTS)
        chosen = {**SGD_DEFAULTS, **optimizer_options}
        rate = opt.positive("sgd: learning_rate", chosen["learning_rate"])
        return Sgd(num_keys, learning_rate=rate)
    if name == "adagrad":
        opt.check_names("optimiser adagrad", optimizer_options, ADAGRAD_DEFAULTS)
        chosen = {**ADAGRAD_DEFAULTS, **optimizer_options}
        return Adagrad(
            num_keys,
            learning_rate=opt.positive("adagrad: learning_rate", chosen["learning_rate"]),
            epsilon=opt.positive("adagrad: epsilon", chosen["epsilon"]),
            initial_accumulator=opt.number(
                "adagrad: initial_accumulator", chosen["initial_accumulator"], 0.0, 1e6
            ),
        )
    raise WorkloadError(f"unknown optimiser '{name}'; known: adagrad, sgd")


def _positions(
    num_keys: int, params: Float32Array, keys: NDArray[np.uint64], gradient: Float32Array
) -> NDArray[np.int64]:
    """`keys` as positions in `params`, once everything has been found to fit."""
    if params.shape != (num_keys,) or params.dtype != np.float32 or gradient.dtype != np.float32:
        raise WorkloadError(
            f"optimiser for float32[{num_keys}] got parameters {params.dtype}{params.shape} "
            f"and a gradient of {gradient.dtype}"
        )
    if keys.shape != gradient.shape or keys.ndim != 1:
        raise WorkloadError(f"optimiser got keys {keys.shape} and a gradient {gradient.shape}")
    if keys.size and int(keys.max()) >= num_keys:
        raise WorkloadError(f"optimiser got key {keys.max()}; allowed: 0 to {num_keys - 1}")
    return keys.astype(np.int64)


def _check_state(
    name: str, state: Mapping[str, Float32Array], wanted: Mapping[str, tuple[int, ...]]
) -> None:
    found = {field: (array.shape, array.dtype.name) for field, array in state.items()}
    if found != {field: (shape, "float32") for field, shape in wanted.items()}:
        raise WorkloadError(
            f"state of optimiser {name} holds {found or 'nothing'}; "
            f"need float32 arrays of shapes {dict(wanted) or 'none'}"
        )
