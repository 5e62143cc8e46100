"""What a server asks of the controller."""

from __future__ import annotations

import numpy as np
import pytest

from host_stack import appeals as module
from host_stack.appeals import Appeals
from host_stack.incarnation import Incarnation
from host_stack.placement import heat_based
from host_stack.standing import Standing
from tests.job_in_memory import LAYOUT


class Controller:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def fileno(self) -> int:
        """Never waited for."""
        raise NotImplementedError

    def news(self) -> Incarnation | None:
        """None."""
        return None

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Another incarnation."""
        self.asked.append(("renew", reason))

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """A look at the switch."""
        self.asked.append(("suspect", reason))

    def report(self, standing: Standing) -> None:
        """How the job stands."""
        self.asked.append(("report", str(standing.round)))


def test_asks_and_reports_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within an interval the first request of a kind is made and others are not."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    placement = heat_based(np.arange(8, dtype=np.uint64), LAYOUT)
    seen = Incarnation(1, 0, 20, 1, placement)
    controller = Controller()
    appeals = Appeals(controller)
    appeals.suspect("a", seen, 0)
    appeals.suspect("b", seen, 0)
    appeals.renew("c", seen, 0)
    appeals.renew("d", seen, 0)
    now[0] += module.REPEAT_S
    appeals.suspect("e", seen, 0)
    appeals.renew("f", seen, 0)
    assert controller.asked == [("suspect", "a"), ("renew", "c"), ("suspect", "e"), ("renew", "f")]

    assert appeals.report_is_due
    appeals.report(Standing(3))
    assert not appeals.report_is_due
    now[0] += module.REPORT_EVERY_S
    assert appeals.report_is_due
    assert controller.asked[-1] == ("report", "3")
