"""The server's optimisers: what a round's aggregated gradient does to the parameters.

All arithmetic is float32 and elementwise, so the result is a function of the gradients alone, bit
for bit (the design, section 2). Updates are sparse: a round changes parameters and state of the
keys that have a gradient in it, and of no others. What a dense optimiser would still do to these,
decay their averages and move them by their momentum, is left undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads import options as opt
from workloads.errors import WorkloadError
from workloads.examples import Float32Array

_Check = Callable[[str, float], float]


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


class Momentum:
    """U ← momentum · u + g; θ ← θ - learning_rate · u (Polyak, 1964)."""

    name = "momentum"

    def __init__(self, num_keys: int, *, learning_rate: float, momentum: float) -> None:
        self._num_keys = num_keys
        self._learning_rate = np.float32(learning_rate)
        self._momentum = np.float32(momentum)
        self._velocity = np.zeros(num_keys, dtype=np.float32)

    def apply(self, params: Float32Array, keys: NDArray[np.uint64], gradient: Float32Array) -> None:
        """See `Optimizer.apply`."""
        at = _positions(self._num_keys, params, keys, gradient)
        velocity = self._momentum * self._velocity[at] + gradient
        self._velocity[at] = velocity
        params[at] -= self._learning_rate * velocity

    def state(self) -> dict[str, Float32Array]:
        """`velocity`: float32[num_keys]."""
        return {"velocity": self._velocity.copy()}

    def load_state(self, state: Mapping[str, Float32Array]) -> None:
        """See `Optimizer.load_state`."""
        _check_state(self.name, state, {"velocity": (self._num_keys,)})
        self._velocity = state["velocity"].copy()


class Adam:
    """Adam (Kingma and Ba, 2015), each parameter with a clock of its own.

    m ← beta1 · m + (1 - beta1) · g; v ← beta2 · v + (1 - beta2) · g²;
    θ ← θ - learning_rate · m / (1 - beta1^t) / (√(v / (1 - beta2^t)) + epsilon),

    where t counts the rounds in which the parameter had a gradient. Counting all rounds instead
    would take the zeros that m and v begin with for gradients, and make the first step of a
    parameter that is seen late too long.
    """

    name = "adam"
    _FIELDS = ("mean", "square", "decay1", "decay2")

    def __init__(
        self, num_keys: int, *, learning_rate: float, beta1: float, beta2: float, epsilon: float
    ) -> None:
        self._num_keys = num_keys
        self._learning_rate = np.float32(learning_rate)
        self._beta1 = np.float32(beta1)
        self._beta2 = np.float32(beta2)
        self._epsilon = np.float32(epsilon)
        self._state = {name: np.zeros(num_keys, dtype=np.float32) for name in self._FIELDS}
        # beta^t is kept as a product: the bits of a power depend on the library that computes it.
        self._state["decay1"] += 1
        self._state["decay2"] += 1

    def apply(self, params: Float32Array, keys: NDArray[np.uint64], gradient: Float32Array) -> None:
        """See `Optimizer.apply`."""
        at = _positions(self._num_keys, params, keys, gradient)
        state, one = self._state, np.float32(1)
        mean = self._beta1 * state["mean"][at] + (one - self._beta1) * gradient
        square = self._beta2 * state["square"][at] + (one - self._beta2) * np.square(gradient)
        decay1 = self._beta1 * state["decay1"][at]
        decay2 = self._beta2 * state["decay2"][at]
        for name, values in zip(self._FIELDS, (mean, square, decay1, decay2), strict=True):
            state[name][at] = values
        scale = np.sqrt(square / (one - decay2)) + self._epsilon
        params[at] -= self._learning_rate * (mean / (one - decay1)) / scale

    def state(self) -> dict[str, Float32Array]:
        """`mean`, `square`, `decay1` (beta1^t) and `decay2`, each float32[num_keys]."""
        return {name: values.copy() for name, values in self._state.items()}

    def load_state(self, state: Mapping[str, Float32Array]) -> None:
        """See `Optimizer.load_state`."""
        _check_state(self.name, state, dict.fromkeys(self._FIELDS, (self._num_keys,)))
        self._state = {name: state[name].copy() for name in self._FIELDS}


def make_optimizer(spec: str, num_keys: int, **optimizer_options: float) -> Optimizer:
    """Build an optimiser, `NAME` or `NAME:option=number,…`, for a model of `num_keys` parameters.

    - `sgd`: option `learning_rate`
    - `momentum`: options `learning_rate`, `momentum`
    - `adagrad`: options `learning_rate`, `epsilon`, `initial_accumulator`
    - `adam`: options `learning_rate`, `beta1`, `beta2`, `epsilon`

    Options in `spec` come before `optimizer_options`. Raises `WorkloadError` for an unknown name or
    option, or a value out of range.
    """
    name, given = opt.split("optimiser", spec)
    if name not in _MAKERS:
        raise WorkloadError(f"unknown optimiser '{name}'; known: {', '.join(OPTIMIZERS)}")
    make, options = _MAKERS[name]
    chosen = {**optimizer_options, **given}
    opt.check_names(f"optimiser {name}", chosen, options)
    checked = {}
    for option, (default, check) in options.items():
        checked[option] = check(f"{name}: {option}", chosen.get(option, default))
    return make(num_keys, **checked)


def _below_one(what: str, value: float) -> float:
    """`value`, a share of the past to keep: from 0, and below 1 in float32 as well."""
    if not 0 <= value <= float(np.nextafter(np.float32(1), np.float32(0))):
        raise WorkloadError(f"{what} is {value}; allowed: a number from 0 to below 1, in float32")
    return float(value)


def _positive(what: str, value: float) -> float:
    """`value`, above 0 and finite in float32 as well, in which optimisers compute."""
    least, most = _NORMAL
    if not least <= value <= most:
        raise WorkloadError(
            f"{what} is {value}; allowed: a finite number above 0, from {least:.3g} to {most:.3g}"
        )
    return float(value)


def _accumulated(what: str, value: float) -> float:
    return opt.number(what, value, 0.0, 1e6)


_NORMAL = (float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
_RATE = (0.1, _positive)
_MAKERS: dict[str, tuple[Callable[..., Optimizer], dict[str, tuple[float, _Check]]]] = {
    "adagrad": (
        Adagrad,
        {
            "learning_rate": _RATE,
            "epsilon": (1e-8, _positive),
            "initial_accumulator": (0.0, _accumulated),
        },
    ),
    "adam": (
        Adam,
        {
            "learning_rate": _RATE,
            "beta1": (0.9, _below_one),
            "beta2": (0.999, _below_one),
            "epsilon": (1e-8, _positive),
        },
    ),
    "momentum": (Momentum, {"learning_rate": _RATE, "momentum": (0.9, _below_one)}),
    "sgd": (Sgd, {"learning_rate": _RATE}),
}
OPTIMIZERS = tuple(_MAKERS)


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
