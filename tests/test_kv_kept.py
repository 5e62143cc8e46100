"""The keys that a server keeps: whose they are, how many there are, and when they go."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from host_stack.kv import kept as module
from host_stack.kv.kept import KeptKeys
from host_stack.kv.word import MIN_KEYS, Name, Says, Word

WORKER, OTHER = (9, 0), (11, 0)


def keys_of(first: int, count: int = MIN_KEYS) -> np.ndarray:
    """Different keys for each number."""
    return np.arange(first, first + count, dtype=np.uint64)


def word(name: Name, count: int = MIN_KEYS) -> Word:
    """What a worker says whose keys are left out."""
    return Word(Says.NAMED, count, name)


def test_keys_are_found_by_customer_name_and_number() -> None:
    """Nothing less is enough."""
    kept = KeptKeys(1 << 20)
    name, keys = Name(5, 2, 1), keys_of(0)
    assert kept.keep(WORKER, name, keys)
    assert kept.find(WORKER, word(name)) is keys
    for customer in (OTHER, (9, 1)):
        assert kept.find(customer, word(name)) is None
    for other in (Name(6, 2, 1), Name(5, 3, 1), Name(5, 2, 2)):
        assert kept.find(WORKER, word(other)) is None
    assert kept.find(WORKER, word(name, MIN_KEYS + 1)) is None


def test_few_keys_are_not_kept() -> None:
    """They would be cheap to send and would cost more than their bytes."""
    kept = KeptKeys(1 << 20)
    assert not kept.keep(WORKER, Name(5, 0, 1), keys_of(0, MIN_KEYS - 1))
    assert kept.size_bytes == 0


def test_a_slot_holds_one_array_and_a_nonce_is_one_process() -> None:
    """What comes into a slot replaces what was there; another nonce, all that its customer had."""
    kept = KeptKeys(1 << 20)
    for number in (1, 2):
        assert kept.keep(WORKER, Name(5, 0, number), keys_of(number))
    assert kept.keep(WORKER, Name(5, 1, 3), keys_of(3))
    assert kept.find(WORKER, word(Name(5, 0, 1))) is None
    assert kept.find(WORKER, word(Name(5, 0, 2))) is not None
    assert kept.size_bytes == 2 * 8 * MIN_KEYS
    assert kept.keep(WORKER, Name(6, 2, 1), keys_of(4))
    assert kept.find(WORKER, word(Name(5, 1, 3))) is None
    assert kept.size_bytes == 8 * MIN_KEYS


def test_what_has_no_room_is_not_kept_and_takes_nobodys_place() -> None:
    """But that of nodes that are lost."""
    kept = KeptKeys(8 * MIN_KEYS)
    assert kept.keep(OTHER, Name(5, 0, 1), keys_of(0))
    assert not kept.keep(WORKER, Name(6, 0, 1), keys_of(1))
    assert not kept.keep(WORKER, Name(6, 0, 1), keys_of(1), lost={WORKER[0]})
    assert kept.find(OTHER, word(Name(5, 0, 1))) is not None
    assert kept.keep(WORKER, Name(6, 0, 1), keys_of(1), lost={OTHER[0]})
    assert kept.find(OTHER, word(Name(5, 0, 1))) is None
    kept.drop(WORKER[0])
    assert kept.size_bytes == 0


class AnyUse(RuleBasedStateMachine):
    """Whatever workers do: what is found is what was kept last, and there is room for it."""

    limit_keys = 40

    def __init__(self) -> None:
        super().__init__()
        self._before = pytest.MonkeyPatch()
        self._before.setattr(module, "MIN_KEYS", 4)
        self.kept = KeptKeys(8 * self.limit_keys)
        self.model: dict[tuple[tuple[int, int], int], tuple[Name, np.ndarray]] = {}
        self.count = 0

    def teardown(self) -> None:
        """Leave the module as it was."""
        self._before.undo()

    @rule(
        customer=st.sampled_from([(9, 0), (9, 1), (11, 0)]),
        nonce=st.integers(1, 2),
        slot=st.integers(0, 2),
        count=st.integers(1, 20),
        lost=st.sets(st.sampled_from([9, 11])),
    )
    def keep(
        self, customer: tuple[int, int], nonce: int, slot: int, count: int, lost: set[int]
    ) -> None:
        """Offer an array."""
        self.count += 1
        name, keys = Name(nonce, slot, self.count), keys_of(self.count, count)
        before = self._in_use()
        if self.kept.keep(customer, name, keys, lost):
            assert count >= 4
            self.model[customer, slot] = name, keys
        elif count >= 4:
            assert before + count > self.limit_keys
        gone = {
            where
            for where, (known, array) in self.model.items()
            if self.kept.find(where[0], word(known, array.size)) is not array
        }
        for other, slot_ in gone:
            assert other[0] in lost or (other == customer and count >= 4)
            assert other != customer or slot_ == slot or self.model[other, slot_][0].nonce != nonce
            del self.model[other, slot_]

    @rule(peer=st.sampled_from([9, 11]))
    def drop(self, peer: int) -> None:
        """A node is started anew."""
        self.kept.drop(peer)
        self.model = {where: each for where, each in self.model.items() if where[0][0] != peer}

    @invariant()
    def everything_kept_is_counted(self) -> None:
        """In bytes, and within the limit."""
        assert self.kept.size_bytes == 8 * self._in_use() <= 8 * self.limit_keys
        assert len(self.kept._shelves) == len({customer for customer, _ in self.model})

    def _in_use(self) -> int:
        return sum(keys.size for _, keys in self.model.values())


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(derandomize=True, max_examples=60, deadline=None)
