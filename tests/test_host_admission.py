"""What the server of a job refuses: pushes and pulls that cannot be meant for it."""

from __future__ import annotations

import numpy as np
import pytest

from host_stack.admission import fault_of
from host_stack.kv.message import KVPairs
from host_stack.kv.server import KVMeta
from host_stack.layout import make_tag

TAGGED = make_tag(1, 0)
PLAIN = 0


def request(*, push: bool, pull: bool, cmd: int) -> KVMeta:
    """A push or pull of some node."""
    return KVMeta(cmd, push, pull, 9, 0, 0, 0)


@pytest.mark.parametrize("cmd", [TAGGED, PLAIN])
@pytest.mark.parametrize(("push", "pull"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("is_worker", [True, False])
@pytest.mark.parametrize("has_joined", [True, False])
@pytest.mark.parametrize("last", [9, 10])
@pytest.mark.parametrize("values", [1, 2, 4])
def test_what_is_refused(
    cmd: int, push: bool, pull: bool, is_worker: bool, has_joined: bool, last: int, values: int
) -> None:
    """Every combination: what is good, and else under which name it counts."""
    pairs = KVPairs(np.array([3, last], np.uint64), np.zeros(values if push else 0, np.float32))
    fault = fault_of(
        request(push=push, pull=pull, cmd=cmd),
        pairs,
        10,
        is_worker=is_worker,
        has_joined=has_joined,
    )
    plain = cmd == PLAIN
    good_push = is_worker and values == 2 and (not has_joined if plain else not pull)
    fits = not push or good_push
    wanted = "unknown_key" if last > 9 else None if fits else "bad_push"
    assert (None if fault is None else fault.counter) == wanted
    assert fault is None or fault.why


def test_an_empty_pull() -> None:
    """There is no key that could be unknown."""
    nothing = KVPairs(np.zeros(0, np.uint64), np.zeros(0, np.float32))
    asked = request(push=False, pull=True, cmd=3)
    assert fault_of(asked, nothing, 10, is_worker=True, has_joined=True) is None
