"""What runtime/faults.h promises, once more and slowly: the tests compare the engine with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.faults import Direction, LinkFaults

GOLDEN64, MASK64 = 0x9E3779B97F4A7C15, (1 << 64) - 1
LOSS, DUP, REORDER, DEPTH, JITTER, SPIKE = range(6)


def mix64(z: int) -> int:
    """splitmix64's output function."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return z ^ z >> 31


@dataclass(frozen=True)
class Fate:
    """What the random numbers say about one packet."""

    lost: bool
    twice: bool
    held_for: int
    delay_ns: int


def fate(faults: LinkFaults, port: int, direction: Direction, k: int) -> Fate:
    """The fate of packet k: a function of its arguments alone."""
    side = 0 if direction is Direction.RX else 1
    key = mix64((mix64(faults.seed) + (2 * port + side + 1) * GOLDEN64) & MASK64)

    def draw(purpose: int) -> int:
        return mix64((key + (8 * k + purpose) * GOLDEN64) & MASK64)

    def chance(purpose: int, probability: float) -> bool:
        return (draw(purpose) >> 11) / 2**53 < probability

    jitter_ns = round(faults.jitter_s * 1e9)
    delay_ns = round(faults.delay_s * 1e9)
    if jitter_ns:
        delay_ns = max(delay_ns - jitter_ns + (draw(JITTER) * (2 * jitter_ns + 1) >> 64), 0)
    if chance(SPIKE, faults.spike):
        delay_ns += round(faults.spike_delay_s * 1e9)
    held = chance(REORDER, faults.reorder)
    return Fate(
        lost=chance(LOSS, faults.loss),
        twice=chance(DUP, faults.duplicate),
        held_for=1 + (draw(DEPTH) * faults.reorder_depth >> 64) if held else 0,
        delay_ns=delay_ns,
    )


@dataclass
class Held:
    """A packet that is held back, and until when at the latest."""

    number: int
    size: int
    until: int
    deadline_ns: int
    copies: int


@dataclass
class LinkModel:
    """One direction of a link; `left` collects (time in ns, number) of what passes it."""

    faults: LinkFaults
    port: int
    direction: Direction
    left: list[tuple[int, int]] = field(default_factory=list)
    full: int = 0

    def __post_init__(self) -> None:
        self._line: tuple[int, int] = (0, 0)  # when it is free: ns and units of 1/rate ns
        self._last_ns = 0
        self._held: list[Held] = []

    def offer(self, now_ns: int, k: int, size: int) -> None:
        """Packet k comes to the link; times do not decrease."""
        self.pass_time(now_ns)
        this = fate(self.faults, self.port, self.direction, k)
        if not this.lost:
            copies = 2 if this.twice else 1
            if this.held_for:
                deadline_ns = now_ns + round(self.faults.hold_s * 1e9)
                self._held.append(Held(k, size, k + this.held_for, deadline_ns, copies))
            else:
                self._enter(now_ns, k, size, copies)
        self._unhold(now_ns, [held for held in self._held if held.until <= k])

    def pass_time(self, now_ns: int) -> None:
        """Let go what is held until `now_ns`."""
        for held in list(self._held):
            if held.deadline_ns <= now_ns:
                self._unhold(held.deadline_ns, [held])

    def _unhold(self, now_ns: int, free: list[Held]) -> None:
        self._held = [held for held in self._held if held not in free]
        for held in free:
            self._enter(now_ns, held.number, held.size, held.copies)

    def _enter(self, now_ns: int, k: int, size: int, copies: int) -> None:
        for _ in range(copies):
            due_ns = self._send(now_ns, size)
            if due_ns is None:
                self.full += 1
                continue
            delay_ns = fate(self.faults, self.port, self.direction, k).delay_ns
            self._last_ns = max(self._last_ns, due_ns + delay_ns)
            self.left.append((self._last_ns, k))

    def _send(self, now_ns: int, size: int) -> int | None:
        rate = self.faults.rate_bps
        if not rate:
            return now_ns
        free_ns, rest = self._line
        if free_ns <= now_ns:
            free_ns, rest = now_ns, 0
        elif (free_ns - now_ns) * rate // (8 * 10**9) + size > self.faults.queue_bytes:
            return None
        more_ns, rest = divmod(rest + size * 8 * 10**9, rate)
        self._line = (free_ns + more_ns, rest)
        return self._line[0]
