"""Layer tables of public models, computed from their architectures; no framework is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from planner.errors import PlanError
from planner.layers import Model
from planner.models.bert import bert
from planner.models.candle import candle
from planner.models.recommendation import dlrm, ncf
from planner.models.resnet import resnet
from planner.models.vgg import vgg16
from workloads import options

Maker = Callable[..., Model]
Ranges = Mapping[str, tuple[int, int]]

_COUNT, _SIZE, _ROWS = (1, 1024), (1, 1 << 20), (1, 10**10)
MAX_BATCH = 1 << 20
_BATCH: Ranges = {"batch": (1, MAX_BATCH)}
_CLASSES: Ranges = {"classes": (1, 10**7)}
_MAKERS: Mapping[str, tuple[Maker, Ranges]] = {
    "resnet50": (partial(resnet, 50), _CLASSES),
    "resnet101": (partial(resnet, 101), _CLASSES),
    "vgg16": (vgg16, {"batch_norm": (0, 1), **_CLASSES}),
    "bert": (bert, {"layers": _COUNT, "hidden": _SIZE, "sequence": (1, 1 << 16)}),
    "ncf": (
        ncf,
        {
            **dict.fromkeys(("tables", "layers"), _COUNT),
            "rows": _ROWS,
            **dict.fromkeys(("mf_width", "mlp_width", "size"), _SIZE),
        },
    ),
    "dlrm": (
        dlrm,
        {
            **dict.fromkeys(("tables", "bottom", "top"), _COUNT),
            "rows": _ROWS,
            **dict.fromkeys(("width", "bottom_size", "top_size"), _SIZE),
        },
    ),
    "candle": (
        candle,
        {
            **dict.fromkeys(("feature_layers", "layers"), _COUNT),
            **dict.fromkeys(("feature_size", "size"), _SIZE),
        },
    ),
}
KNOWN = tuple(_MAKERS)


def make_model(spec: str) -> Model:
    """The model that `NAME` or `NAME:OPTION=NUMBER,…` says.

    Raises `PlanError` for an unknown name, `workloads.errors.WorkloadError` for an unknown option
    and a value out of range.
    """
    name, given = options.split("model", spec)
    if name not in _MAKERS:
        raise PlanError(f"unknown model {name!r}; known are {', '.join(KNOWN)}")
    maker, ranges = _MAKERS[name]
    ranges = {**ranges, **_BATCH}
    options.check_names(f"model {name}", given, ranges)
    checked = {
        option: options.integer(f"{name}:{option}", value, *ranges[option])
        for option, value in given.items()
    }
    return replace(maker(**checked), name=spec)
