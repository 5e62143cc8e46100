"""Ring permutations of an AllReduce group, and the choice among them (TopoOpt, section 4.3).

An AllReduce may run around any ring that visits every member once. Rings of the form
i → (i + p) mod g, with p coprime to g, are enough to give the other traffic short paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from planner.errors import PlanError

SERVERS_MAX = 4096
DEGREE_MAX = 64


@dataclass(frozen=True)
class Strides:
    """Steps along the members of a group, each of which makes one ring.

    Attributes:
        both_ways: steps p whose links carry a ring forward (p) and one back (g − p).
        one_way: steps whose links carry the forward ring only.

    """

    both_ways: tuple[int, ...] = ()
    one_way: tuple[int, ...] = ()

    @property
    def chosen(self) -> tuple[int, ...]:
        """Every step once, mirrors left out."""
        return (*self.both_ways, *self.one_way)

    def directed(self, members: int) -> tuple[int, ...]:
        """The step of every ring, modulo the members of the group: one link out of each member."""
        pairs = (step % members for p in self.both_ways for step in (p, members - p))
        return (*pairs, *(p % members for p in self.one_way))


def totient_perms(
    servers: int, members: int | None = None, *, prime_only: bool = False
) -> tuple[int, ...]:
    """Steps that make one ring of a group (TotientPerms).

    Args:
        servers: n, in the cluster.
        members: g, servers / g apart from each other; all servers when not given.
        prime_only: of k, take 1 and primes only, which are enough where n is large: O(g / ln g).

    Returns:
        (n / g) · k in ascending order, for the k from 1 to g that are coprime to g.

    Raises:
        PlanError: a size out of range, or members that are not equally far apart.

    """
    group = servers if members is None else members
    check_servers(servers)
    if not 1 <= group <= servers or servers % group:
        raise PlanError(f"{group} members of {servers} servers: allowed are divisors of {servers}")
    factors = [k for k in range(1, group + 1) if gcd(k, group) == 1]
    if prime_only:
        factors = [k for k in factors if k == 1 or is_prime(k)]
    return tuple(servers // group * k for k in factors)


def select_permutations(
    members: int,
    degree: int,
    candidates: Sequence[int],
    *,
    both_ways: bool = True,
) -> Strides:
    """Choose steps in geometric progression, for a small diameter (SelectPermutations).

    With links both ways, an odd degree leaves one link, which gets a one-way ring. Where there
    are fewer candidates than links, steps repeat: parallel links.

    Args:
        members: g, of the group.
        degree: links of every member that the group may use.
        candidates: steps of one ring each, as from `totient_perms(members)`.
        both_ways: whether a step comes with its mirror g − p.

    Raises:
        PlanError: no candidate, or a size out of range.

    """
    check_degree(degree)
    if members < 2 or not candidates:
        raise PlanError(
            f"{members} members and {len(candidates)} candidates: a ring needs two members and a "
            "candidate"
        )
    steps = sorted(candidates)
    if not both_ways:
        return Strides(one_way=_nearest(members, degree, steps))
    pairs = _mirrored(members, degree // 2, steps)
    if degree % 2 == 0:
        return Strides(both_ways=pairs)
    used = {step for p in pairs for step in (p, members - p)}
    left = [step for step in steps if step not in used] or steps
    return Strides(both_ways=pairs, one_way=(left[0],))


def _mirrored(members: int, count: int, steps: list[int]) -> tuple[int, ...]:
    """The released code's choice: the smallest unused step from `current` on, which grows."""
    if count == 0:
        return ()
    ratio = (steps[-1] / steps[0]) ** (1 / count)
    current = float(steps[0])
    chosen: list[int] = []
    unused = list(steps)
    for _ in range(count):
        if not unused:  # 7 ≡ −5 mod 12: the mirror of a step is the same links once more
            unused = list(steps)
        step = next((p for p in unused if p >= current * (1 - 1e-12)), unused[-1])
        chosen.append(step)
        unused = [p for p in unused if p not in (step, members - step)]
        current *= ratio
    return tuple(chosen)


def _nearest(members: int, count: int, steps: list[int]) -> tuple[int, ...]:
    """The paper's choice: the unused step nearest to the last one times g^(1/d)."""
    ratio = members ** (1 / count)
    chosen = [steps[0]]
    unused = steps[1:]
    while len(chosen) < count:
        if not unused:
            unused = list(steps)
        wanted = ratio * chosen[-1]
        step = min(unused, key=lambda p: abs(p - wanted))
        chosen.append(step)
        unused.remove(step)
    return tuple(chosen)


def ring(members: Sequence[int], step: int) -> npt.NDArray[np.int64]:
    """The members in the order in which the ring of a step visits them: int64, (g,).

    Raises PlanError when the step does not reach them all.
    """
    group = len(members)
    if group < 2 or gcd(step, group) != 1:
        raise PlanError(f"step {step} of {group} members: allowed are steps coprime to {group}")
    return np.asarray(members, dtype=np.int64)[np.arange(group) * step % group]


def is_prime(number: int) -> bool:
    """Whether a number has no divisor but 1 and itself."""
    return number > 1 and all(number % k for k in range(2, int(number**0.5) + 1))


def check_servers(servers: int) -> None:
    """Raise PlanError for a cluster size out of range."""
    if not 1 <= servers <= SERVERS_MAX:
        raise PlanError(f"{servers} servers: allowed are 1 to {SERVERS_MAX}")


def check_degree(degree: int) -> None:
    """Raise PlanError for a number of interfaces out of range."""
    if not 1 <= degree <= DEGREE_MAX:
        raise PlanError(f"degree {degree}: allowed are 1 to {DEGREE_MAX} interfaces of a server")
