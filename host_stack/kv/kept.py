"""The keys that a server keeps, so that workers need not send them again."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from host_stack.kv.message import KeyArray
from host_stack.kv.word import MIN_KEYS, Name, Word

Customer = tuple[int, int]
"""Node id and number of a worker's customer."""


@dataclass(slots=True)
class _Shelf:
    """What one customer has: the last array of each slot. It has one nonce all its life."""

    nonce: int
    arrays: dict[int, tuple[Name, KeyArray]] = field(default_factory=dict)


class KeptKeys:
    """Keys by customer and name, as many as fit into a number of bytes.

    What is kept stays until its worker puts something else into its slot, or is gone: to take it
    away earlier would let a push that has to be sent again arrive behind its worker's next pull.
    So when all room is taken, what comes then is not kept.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Keep nothing yet."""
        self._limit_bytes = limit_bytes
        self._shelves: dict[Customer, _Shelf] = {}
        self.size_bytes = 0

    def find(self, customer: Customer, word: Word) -> KeyArray | None:
        """The keys that a word names, or None: same name, same number of keys."""
        shelf = self._shelves.get(customer)
        name, keys = (None, None) if shelf is None else shelf.arrays.get(word.name.slot, _NOTHING)
        return keys if keys is not None and name == word.name and keys.size == word.count else None

    def keep(
        self, customer: Customer, name: Name, keys: KeyArray, lost: Iterable[int] = ()
    ) -> bool:
        """Keep checked keys, if there is room without what nodes that are `lost` have left."""
        if keys.size < MIN_KEYS:
            return False
        shelf = self._shelves.get(customer)
        if shelf is not None and (shelf.nonce != name.nonce or set(shelf.arrays) == {name.slot}):
            self._clear(customer)
        elif shelf is not None:
            self._take_out(shelf, name.slot)
        if not self._fits(keys):
            for peer in set(lost) - {customer[0]}:
                self.drop(peer)
        if not self._fits(keys):
            return False
        shelf = self._shelves.setdefault(customer, _Shelf(name.nonce))
        shelf.arrays[name.slot] = name, keys
        self.size_bytes += keys.nbytes
        return True

    def drop(self, peer: int) -> None:
        """Forget what all customers of a node have left."""
        for customer in [each for each in self._shelves if each[0] == peer]:
            self._clear(customer)

    def _fits(self, keys: KeyArray) -> bool:
        return self.size_bytes + keys.nbytes <= self._limit_bytes

    def _clear(self, customer: Customer) -> None:
        shelf = self._shelves.pop(customer)
        for slot in list(shelf.arrays):
            self._take_out(shelf, slot)

    def _take_out(self, shelf: _Shelf, slot: int) -> None:
        _, keys = shelf.arrays.pop(slot, _NOTHING)
        if keys is not None:
            self.size_bytes -= keys.nbytes


_NOTHING: tuple[None, None] = (None, None)
