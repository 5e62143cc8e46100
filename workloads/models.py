"""Models by name, built for a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from host_stack.layout import MAX_KEYS
from workloads import options as opt
from workloads.datasets import Dataset
from workloads.dlrm import EmbeddingModel
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.fm import FactorisationMachine
from workloads.logistic import LogisticRegression
from workloads.losses import LogisticLoss, Loss, SquaredLoss
from workloads.segments import FloatArray

FM_DEFAULTS: Mapping[str, float] = {"rank": 8, "l2": 0.0, "init_scale": 0.01}
LR_DEFAULTS: Mapping[str, float] = {"l2": 0.0}
DLRM_DEFAULTS: Mapping[str, float] = {"dim": 8, "hidden": 16, "l2": 0.0, "init_scale": 0.1}


class Model(Protocol):
    """What training needs of a model; their modules say the details.

    Feature f owns the `width` consecutive keys from f · `width`.
    """

    name: str
    num_features: int
    width: int
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
    dataset: Dataset,
    train_labels: Float32Array,
    model_options: Mapping[str, float],
) -> Model:
    """Build the model `name` for a data set; its bias starts at the best constant for the labels.

    - `fm`: options `rank`, `l2`, `init_scale`; squared loss on ratings, logistic loss on 0 and 1
    - `lr`: option `l2`; logistic loss, for labels 0 and 1 only
    - `dlrm`: options `dim`, `hidden`, `l2`, `init_scale`; losses as `fm`

    Raises `WorkloadError` for an unknown model or option, a value out of range, a task that the
    model does not do, or more than `MAX_KEYS` parameters.
    """
    if name not in _MAKERS:
        raise WorkloadError(f"unknown model '{name}'; known: {', '.join(KNOWN)}")
    defaults, make = _MAKERS[name]
    opt.check_names(f"model {name}", model_options, defaults)
    loss: Loss = SquaredLoss() if dataset.task == "rating" else LogisticLoss()
    bias = loss.best_constant(train_labels)
    model = make(dataset, loss, bias, {**defaults, **model_options})
    if model.num_keys > MAX_KEYS:
        raise WorkloadError(
            f"model {name} over {dataset.num_features} features has {model.num_keys} parameters; "
            f"at most {MAX_KEYS} are allowed"
        )
    return model


def _make_fm(dataset: Dataset, loss: Loss, bias: float, chosen: Mapping[str, float]) -> Model:
    return FactorisationMachine(
        dataset.num_features,
        loss,
        initial_bias=bias,
        rank=opt.integer("fm: rank", chosen["rank"], 1, 1024),
        l2=opt.number("fm: l2", chosen["l2"], 0.0, 1e6),
        init_scale=opt.number("fm: init_scale", chosen["init_scale"], 0.0, 1e3),
    )


def _make_lr(dataset: Dataset, loss: Loss, bias: float, chosen: Mapping[str, float]) -> Model:
    if dataset.task != "binary":
        raise WorkloadError("model lr needs labels 0 and 1, not ratings; use model fm or dlrm")
    l2 = opt.number("lr: l2", chosen["l2"], 0.0, 1e6)
    return LogisticRegression(dataset.num_features, loss, initial_bias=bias, l2=l2)


def _make_dlrm(dataset: Dataset, loss: Loss, bias: float, chosen: Mapping[str, float]) -> Model:
    return EmbeddingModel(
        dataset.num_features,
        dataset.field_starts,
        loss,
        initial_bias=bias,
        dim=opt.integer("dlrm: dim", chosen["dim"], 1, 1024),
        hidden=opt.integer("dlrm: hidden", chosen["hidden"], 1, 4096),
        l2=opt.number("dlrm: l2", chosen["l2"], 0.0, 1e6),
        init_scale=opt.number("dlrm: init_scale", chosen["init_scale"], 0.0, 1e3),
    )


_MAKERS = {
    "dlrm": (DLRM_DEFAULTS, _make_dlrm),
    "fm": (FM_DEFAULTS, _make_fm),
    "lr": (LR_DEFAULTS, _make_lr),
}
KNOWN = tuple(_MAKERS)
