"""Models by name, built for a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from host_stack.layout import MAX_KEYS
from workloads import options as opt
from workloads.datasets import Task
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.fm import FactorisationMachine
from workloads.logistic import LogisticRegression
from workloads.losses import LogisticLoss, Loss, SquaredLoss
from workloads.segments import FloatArray

FM_DEFAULTS: Mapping[str, float] = {"rank": 8, "l2": 0.0, "init_scale": 0.01}
LR_DEFAULTS: Mapping[str, float] = {"l2": 0.0}


class Model(Protocol):
    """What training needs of a model; `workloads.fm` and `workloads.logistic` say the details."""

    name: str
    num_features: int
    num_keys: int

    def initial_params(self, seed: int) -> Float32Array:
        """Return the parameters before the first round, float32[num_keys]."""
        ...

    def batch_keys(self, batch: Examples) -> NDArray[np.uint64]:
        """Return the keys that the gradient of `batch` touches, uint64[n], sorted and unique."""
        ...

    def key_counts(self, feature_counts: Int64Array, examples: int) -> Int64Array:
        """Return how many of `examples` examples touch each key.

        `feature_counts` says it of features: of all, int64[num_features], which gives
        int64[num_keys]; or of the distinct ones of a batch, by number, which gives the counts of
        its `batch_keys`.
        """
        ...

    def gradient(
        self, batch: Examples, keys: NDArray[np.uint64], params: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient [n] of the mean loss at `params` [n], and that loss."""
        ...

    def scores(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the score of each example, [n], from all parameters, [num_keys]."""
        ...

    def predict(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the prediction of each example, [n], from all parameters, [num_keys]."""
        ...


def default_model(dataset: str) -> str:
    """Return the model that suits a data set, by the data set's name."""
    return "fm" if dataset == "movielens" else "lr"


def make_model(
    name: str,
    num_features: int,
    task: Task,
    train_labels: Float32Array,
    model_options: Mapping[str, float],
) -> Model:
    """Build the model `name`, with a bias that starts at the best constant for `train_labels`.

    - `fm`: options `rank`, `l2`, `init_scale`; squared loss on ratings, logistic loss on 0 and 1
    - `lr`: option `l2`; logistic loss, for labels 0 and 1 only

    Raises `WorkloadError` for an unknown model or option, a value out of range, a task that the
    model does not do, or more than `MAX_KEYS` parameters.
    """
    loss: Loss = SquaredLoss() if task == "rating" else LogisticLoss()
    bias = loss.best_constant(train_labels)
    model: Model
    if name == "fm":
        opt.check_names("model fm", model_options, FM_DEFAULTS)
        chosen = {**FM_DEFAULTS, **model_options}
        model = FactorisationMachine(
            num_features,
            loss,
            initial_bias=bias,
            rank=opt.integer("fm: rank", chosen["rank"], 1, 1024),
            l2=opt.number("fm: l2", chosen["l2"], 0.0, 1e6),
            init_scale=opt.number("fm: init_scale", chosen["init_scale"], 0.0, 1e3),
        )
    elif name == "lr":
        if task != "binary":
            raise WorkloadError("model lr needs labels 0 and 1, not ratings; use model fm")
        opt.check_names("model lr", model_options, LR_DEFAULTS)
        l2 = opt.number("lr: l2", {**LR_DEFAULTS, **model_options}["l2"], 0.0, 1e6)
        model = LogisticRegression(num_features, loss, initial_bias=bias, l2=l2)
    else:
        raise WorkloadError(f"unknown model '{name}'; known: fm, lr")
    if model.num_keys > MAX_KEYS:
        raise WorkloadError(
            f"model {name} over {num_features} features has {model.num_keys} parameters; "
            f"at most {MAX_KEYS} are allowed"
        )
    return model
