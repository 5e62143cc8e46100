"""What a server asks of the controller and tells it, no more often than is of use.

Without a controller it is the server's own incarnations that are asked. Who is asked logs it.
"""

from __future__ import annotations

import time

from host_stack.incarnation import Incarnation, Incarnations
from host_stack.standing import Standing

REPEAT_S = 1.0
"""How soon a request of one kind to the controller is repeated."""

REPORT_EVERY_S = 1.0
"""How often the controller is told how the job stands, at most."""


class Appeals:
    """Requests that are made again and again until news of an incarnation answers them."""

    def __init__(self, incarnations: Incarnations) -> None:
        self._incarnations = incarnations
        self._asked_at = {"renew": 0.0, "suspect": 0.0}
        self._reported_at = 0.0

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Ask for another incarnation, unless that was asked just now."""
        if self._may_ask("renew"):
            self._incarnations.renew(reason, seen, round_)

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Ask for a look at the switch, unless that was asked just now."""
        if self._may_ask("suspect"):
            self._incarnations.suspect(reason, seen, round_)

    @property
    def report_is_due(self) -> bool:
        """Whether the last report is old enough for another one."""
        return time.monotonic() - self._reported_at >= REPORT_EVERY_S

    def report(self, standing: Standing) -> None:
        """Tell how the job stands."""
        self._reported_at = time.monotonic()
        self._incarnations.report(standing)

    def _may_ask(self, what: str) -> bool:
        """Whether it is time; one kind of request, however often it is made, delays no other."""
        now = time.monotonic()
        if now - self._asked_at[what] < REPEAT_S:
            return False
        self._asked_at[what] = now
        return True
