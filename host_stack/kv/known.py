"""The arrays of keys that a worker uses again and again: checked once, and sent once."""

import secrets
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from host_stack.kv.message import KeyArray
from host_stack.kv.ranges import check_keys
from host_stack.kv.word import SLOTS, Name

_SAMPLES = 1024


@dataclass(frozen=True, slots=True)
class _Known:
    """An array that was checked."""

    array: "weakref.ref[KeyArray]"
    name: Name
    sample: KeyArray

    def is_same(self, keys: KeyArray) -> bool:
        """Whether this is the array, still read-only, and as it was as far as a sample tells."""
        return (
            self.array() is keys
            and not keys.flags.writeable
            and np.array_equal(_sample(keys), self.sample)
        )


class KeyCheck:
    """Checks keys as `check_keys`; those of the last 16 arrays only once, if they cannot change.

    That is an array which stays read-only and is no view of another one. Each such array has a
    name, by which servers may keep its keys. Of an array that was made writeable for a while, a
    sample of 1,024 keys tells whether it holds others now.
    """

    def __init__(self) -> None:
        """Know no array."""
        self._nonce = secrets.randbits(64)
        self._count = 0
        self._lock = threading.Lock()
        # By id(), in the order of their last use.
        self._known: OrderedDict[int, _Known] = OrderedDict()

    def knows(self, keys: KeyArray) -> bool:
        """Whether an array was checked and has stayed as it was."""
        with self._lock:
            known = self._known.get(id(keys))
            return known is not None and known.is_same(keys)

    def __call__(self, keys: KeyArray) -> Name | None:
        """Refuse keys that are not one dimension of strictly increasing uint64.

        Returns the name of an array that was known before.
        """
        with self._lock:
            known = self._known.get(id(keys))
            if known is not None and known.is_same(keys):
                self._known.move_to_end(id(keys))
                return known.name
        check_keys(keys)
        if keys.base is None and not keys.flags.writeable:
            self._enter(keys)
        return None

    def _enter(self, keys: KeyArray) -> None:
        with self._lock:
            self._count += 1
            name = Name(self._nonce, self._free_slot(id(keys)), self._count)
            self._known[id(keys)] = _Known(weakref.ref(keys), name, _sample(keys))

    def _free_slot(self, number: int) -> int:
        """The slot of an array that is gone, a slot that was never used, or the one longest unused.

        Arrays that are gone are forgotten.
        """
        replaced = self._known.pop(number, None)
        for gone in [each for each, known in self._known.items() if known.array() is None]:
            replaced = self._known.pop(gone)
        if replaced is None and len(self._known) == SLOTS:
            _, replaced = self._known.popitem(last=False)
        if replaced is not None:
            return replaced.name.slot
        used = {known.name.slot for known in self._known.values()}
        return next(slot for slot in range(SLOTS) if slot not in used)


def _sample(keys: KeyArray) -> KeyArray:
    """A copy of up to so many keys of an array, all over it."""
    return keys[:: max(1, -(-keys.size // _SAMPLES))].copy()
