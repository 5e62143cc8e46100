"""The style that all plots share, and figures without pyplot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 160
INK = "#1f2933"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
"""The palette of Okabe and Ito, told apart by colour-blind readers."""

_WIDTH_IN = 9.0
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#9aa5b1",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.08,
    "font.size": 9.5,
    "grid.color": "#e4e7eb",
    "legend.frameon": False,
    "text.color": INK,
    "text.parse_math": False,  # names come from outside; a dollar sign is a dollar sign
    "xtick.color": "#52606d",
    "ytick.color": "#52606d",
}


@contextmanager
def style() -> Iterator[None]:
    """What is drawn and saved inside has the style."""
    with mpl.rc_context(_STYLE):
        yield


def grid(rows: int, columns: int, height_in: float, **options: Any) -> tuple[Figure, Any]:
    """Make a figure without pyplot, so that nothing global is kept; axes as a 2-D array."""
    figure = Figure(figsize=(_WIDTH_IN, height_in))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)
