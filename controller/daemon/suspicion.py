"""When the suspicion of a switch that reads well is reason enough to load it anew."""

from __future__ import annotations

PATIENCE_S = 4.0
"""So long a suspicion may stay."""

MAX_PATIENCE_S = 128.0

FORGIVE_S = 3.0
"""A suspicion that is not repeated within this time is over."""


class Suspicion:
    """What the servers of a switch's jobs have against it.

    To load a switch anew costs all that is open on it. Where a job comes no further by that, the
    switch was not the reason (a busy host or a bad link also lets packets wait), and the next time
    is twice as far away: or a round that takes longer than the patience would never end.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._since = self._at = 0.0
        self._in_vain: dict[int, tuple[int, int]] = {}

    def patience_s(self, job: int, round_: int) -> float:
        """How long a job in a round may suspect the switch."""
        return min(MAX_PATIENCE_S, PATIENCE_S * 2.0 ** self._times_in_vain(job, round_))

    def has_stayed(self, job: int, round_: int, now: float) -> bool:
        """Note a suspicion of a job in a round, at a time in seconds; whether it is too old now.

        If so the switch is loaded anew, and another suspicion begins.
        """
        if now - self._at > FORGIVE_S:
            self._since = now
        self._at = now
        if now - self._since < self.patience_s(job, round_):
            return False
        self._in_vain[job] = (round_, self._times_in_vain(job, round_) + 1)
        self._since = now
        return True

    def confirmed(self, now: float) -> None:
        """The switch does not hold what it should: it is loaded anew at once."""
        self._since = self._at = now

    def _times_in_vain(self, job: int, round_: int) -> int:
        """How often the switch was loaded anew for a job that is in the same round still."""
        known, times = self._in_vain.get(job, (round_, 0))
        return times if known == round_ else 0
