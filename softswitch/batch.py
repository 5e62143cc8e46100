"""Writes to a running switch, one by one or held back to be applied as one.

A held write is translated at once but reaches the data plane with all the others of its batch, by
one call that takes the data plane's lock once: packets see none of them or all of them. What the
batch's writes mean for this package's own view of the switch is undone by whoever holds it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from softswitch.binding import u64_array
from softswitch.errors import SoftSwitchError

_ARGUMENTS = 6
"""Of a call, beside the number of its function (struct ss_call: see runtime/batch.h)."""


class HeldWrites:
    """The writes of one thread that wait to be applied together."""

    def __init__(self, lib: ctypes.CDLL, ctx: int) -> None:
        self._lib, self._ctx = lib, ctx
        self._calls: list[tuple[int, tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """Return how many writes are held."""
        return len(self._calls)

    def add(self, function: int, arguments: tuple[Any, ...]) -> None:
        """Hold a write: the number of its C function and the arguments after the context."""
        self._calls.append((function, arguments))

    def discard(self) -> None:
        """Forget the writes: the data plane never sees them."""
        self._calls.clear()

    def apply(self, undo: Callable[[int], None]) -> bool:
        """Apply the writes between two packets; False if one failed (no memory), then none is.

        In that case `undo` is called with the number of writes that were applied, while packets
        still wait, and has to make the writes that take them back.
        """
        count = len(self._calls)
        done = self._run()
        if done == count:
            return True
        try:
            self.discard()
            undo(done)
            count = len(self._calls)
            if self._run() != count:
                self._lib.ss_batch_end(self._ctx)
                raise SoftSwitchError("a batch failed half-way and could not be undone")
        finally:
            self.discard()
            self._lib.ss_batch_end(self._ctx)
        return False

    def _run(self) -> int:
        words: list[int] = []
        for function, arguments in self._calls:
            words.append(function)
            words += [_word(argument) for argument in arguments]
            words += [0] * (_ARGUMENTS - len(arguments))
        done: int = self._lib.ss_batch(self._ctx, u64_array(words), len(self._calls))
        return done


class Library:
    """The functions of a compiled switch by their C names.

    Those that may be in a batch are held while `hold` is active in the calling thread; they then
    return 0.
    """

    def __init__(self, lib: ctypes.CDLL) -> None:
        self._lib = lib
        self._held: HeldWrites | None = None
        self._holder = 0
        for number, name in enumerate(lib.ss_batch_calls().decode().split()):
            setattr(self, name, partial(self._write, number, getattr(lib, name)))

    def __getattr__(self, name: str) -> Any:
        """Return a function that is never held."""
        return getattr(self._lib, name)

    @contextmanager
    def hold(self, ctx: int) -> Iterator[HeldWrites]:
        """Hold this thread's writes to `ctx` until they are applied or the block ends."""
        held = HeldWrites(self._lib, ctx)
        self._holder = threading.get_ident()
        self._held = held
        try:
            yield held
        finally:
            self._held = None

    def _write(self, number: int, function: Any, ctx: int, *arguments: Any) -> Any:
        held = self._held
        if held is None or self._holder != threading.get_ident():
            return function(ctx, *arguments)
        held.add(number, arguments)
        return 0


def _word(argument: Any) -> int:
    """Return an argument as 64 bits; what it points to must be kept alive."""
    if isinstance(argument, int):
        return argument & ((1 << 64) - 1)
    if isinstance(argument, bytes):
        return ctypes.cast(ctypes.c_char_p(argument), ctypes.c_void_p).value or 0
    return ctypes.addressof(argument)
