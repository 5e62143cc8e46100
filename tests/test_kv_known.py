"""Which arrays of keys a worker knows: checked once, named, and noticed when they change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.kv.errors import KVUsageError
from host_stack.kv.known import KeyCheck
from host_stack.kv.word import SLOTS


def read_only(keys: np.ndarray) -> np.ndarray:
    """An array of one's own that cannot be changed."""
    keys = keys.astype(np.uint64)
    keys.flags.writeable = False
    return keys


def test_keys_that_may_have_changed_are_checked_each_time() -> None:
    """Read-only views of them too, and other arrays after one that is known."""
    check = KeyCheck()
    keys = np.array([1, 2, 3], np.uint64)
    view = keys[:]
    view.flags.writeable = False
    for each in (keys, view):
        check(each)
        keys[1] = 9
        with pytest.raises(KVUsageError, match="sorted and unique"):
            check(each)
        keys[1] = 2
    keys.flags.writeable = False
    check(keys)
    with pytest.raises(KVUsageError, match="sorted and unique"):
        check(keys[::-1])


def test_keys_that_stay_read_only_are_checked_once() -> None:
    """They are known by themselves, for as long as they cannot be changed."""
    check = KeyCheck()
    keys = np.array([1, 2, 3], np.uint64)
    keys.flags.writeable = False
    check(keys)
    keys.flags.writeable = True
    keys[1] = 9
    with pytest.raises(KVUsageError, match="sorted and unique"):
        check(keys)
    keys[1] = 2
    keys.flags.writeable = False
    check(keys)
    check(keys)
    assert check.knows(keys)


def test_names_are_those_of_arrays_used_again() -> None:
    """Not at the first use, and none for what may change, or has changed."""
    check = KeyCheck()
    keys, others = read_only(np.arange(10)), read_only(np.arange(10))
    assert check(keys) is None
    first = check(keys)
    assert first is not None
    assert (first, first.number) == (check(keys), 1)
    assert check(others) is None
    second = check(others)
    assert second is not None
    assert (second.nonce, second.slot, second.number) == (first.nonce, 1, 2)
    assert check(keys[:]) is None
    assert check(keys.copy()) is None
    assert check(keys) == first
    assert KeyCheck()(keys) is None


@pytest.mark.parametrize("size", [3, 5000])
def test_other_keys_in_a_known_array_are_noticed(size: int) -> None:
    """Also when it is read-only again; then it has another name."""
    check = KeyCheck()
    keys = read_only(np.arange(size))
    check(keys)
    name = check(keys)
    keys.flags.writeable = True
    assert not check.knows(keys)
    keys += np.uint64(1)
    keys.flags.writeable = False
    assert not check.knows(keys)
    assert check(keys) is None
    again = check(keys)
    assert name is not None
    assert again is not None
    assert (again.slot, again.number) == (name.slot, name.number + 1)
    keys.flags.writeable = True
    keys[:] = keys[::-1].copy()
    keys.flags.writeable = False
    with pytest.raises(KVUsageError, match="sorted and unique"):
        check(keys)


def test_the_array_that_was_not_used_longest_makes_room() -> None:
    """One that is gone does so before."""
    check = KeyCheck()
    arrays = [read_only(np.arange(number + 1)) for number in range(SLOTS)]
    for _ in range(2):
        names = [check(keys) for keys in arrays]
    assert sorted(name.slot for name in names if name) == list(range(SLOTS))
    del arrays[5]
    arrays.append(read_only(np.arange(100)))
    check(arrays[-1])
    assert all(map(check.knows, arrays))
    name = check(arrays[-1])
    assert name is not None
    assert (name.slot, name.number) == (5, SLOTS + 1)
    check(arrays[0])
    arrays.append(read_only(np.arange(101)))
    check(arrays[-1])
    assert [check.knows(keys) for keys in arrays] == [True, False] + [True] * (SLOTS - 1)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2 * SLOTS), min_size=1, max_size=80))
def test_no_two_arrays_share_a_name(turns: list[int]) -> None:
    """Whatever the order of their use, and slots of those that are known differ."""
    check = KeyCheck()
    arrays = [read_only(np.arange(number + 1)) for number in range(2 * SLOTS + 1)]
    named: dict[int, int] = {}
    for turn in turns:
        name = check(arrays[turn])
        if name is not None:
            assert named.setdefault(name.number, turn) == turn
    names = [check(keys) for keys in arrays if check.knows(keys)]
    assert len({name.slot for name in names if name}) == len(names) <= SLOTS
