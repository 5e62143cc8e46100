"""What a worker leaves out of its requests, by what its servers have shown that they know."""

from collections.abc import Callable
from typing import Any

import numpy as np

from host_stack.kv.errors import KVProtocolError, WireError
from host_stack.kv.ids import describe
from host_stack.kv.message import KEY_DTYPE, Array, KeyArray, Message
from host_stack.kv.refusal import raise_refusal
from host_stack.kv.requests import Again
from host_stack.kv.wire import Meta
from host_stack.kv.word import MIN_KEYS, NO_NAME, Name, Says, Word, word_of

NO_KEYS: KeyArray = np.empty(0, KEY_DTYPE)


class Sparing:
    """The servers of a worker: which know no words, and which have which of its keys.

    A server has shown that it knows words when it has answered one with one. What does not is
    left alone until a server is started anew at its place.
    """

    def __init__(self, is_on: bool) -> None:
        """Know of no server; unless it `is_on` there are no words."""
        self._is_on = is_on
        self._plain: set[int] = set()
        self._kept: dict[int, dict[int, Name]] = {}

    def word(self, server: int, name: Name | None, count: int, pulls: bool) -> Word | None:
        """What to say in a request with `count` keys, of an array with a name or without."""
        if not self._is_on or count < MIN_KEYS or server in self._plain:
            return None
        says = Says.VALUES if pulls else Says.NOTHING
        if name is not None:
            is_kept = self._kept.get(server, {}).get(name.slot) == name
            says |= Says.NAMED if is_kept else Says.KEEP
        return Word(says, count, name or NO_NAME) if says else None

    def answered(self, server: int, said: Word, answer: Word | None) -> None:
        """Note what a server has answered to a word."""
        if answer is None:
            self._plain.add(server)
        elif answer.says & Says.KEEP:
            self._kept.setdefault(server, {})[said.name.slot] = said.name
        elif said.name.number:
            self._kept.get(server, {}).pop(said.name.slot, None)

    def returned(self, server: int) -> None:
        """Forget what a server knew that was started anew."""
        self._kept.pop(server, None)
        self._plain.discard(server)


Take = Callable[[Message, bool], Any]


class Exchange:
    """One request of a worker: what it says to each server, and what they answer."""

    def __init__(self, sparing: Sparing, name: Name | None, take: Take) -> None:
        """Give `take` each answer, and whether it leaves out the keys."""
        self._sparing = sparing
        self._name = name
        self._take = take
        self._said: dict[int, Word] = {}
        self._left_out: dict[int, Again] = {}

    def spare(
        self, server: int, meta: Meta, arrays: tuple[Array, ...]
    ) -> tuple[Meta, tuple[Array, ...]]:
        """Put a word into a request, and leave its keys out if the server has them."""
        word = self._sparing.word(server, self._name, arrays[0].size, meta.pull)
        if word is None:
            return meta, arrays
        self._said[server] = word
        if word.says & Says.NAMED:
            self._left_out[server] = Again(meta, arrays)
            arrays = (NO_KEYS, *arrays[1:])
        return meta._replace(body=word.encode()), arrays

    def take(self, message: Message) -> Any:
        """Read a server's answer; `Again` where it lacks the keys that were left out."""
        server = message.peer or 0
        said, again = self._said.pop(server, None), self._left_out.pop(server, None)
        answer = _answer_of(message, said)
        if said is not None:
            self._sparing.answered(server, said, answer)
        if answer is not None and answer.says & Says.LACKING:
            return again
        if answer is None and again is not None:
            raise KVProtocolError(
                f"{describe(server)} has answered a request without keys as if it had some"
            )
        return self._take(message, answer is not None and bool(answer.says & Says.VALUES))


def _answer_of(message: Message, said: Word | None) -> Word | None:
    """The word in an answer, which fits what was said; raises KVRefused for a refusal."""
    try:
        answer = word_of(message.meta)
    except WireError as error:
        raise KVProtocolError(f"{describe(message.peer or 0)}: {error}") from error
    if answer is None:
        raise_refusal(message)
    elif said is None or not _fits(answer, said, message):
        raise KVProtocolError(
            f"{describe(message.peer or 0)} answered with a word about keys that fits no request"
        )
    return answer


def _fits(answer: Word, said: Word, message: Message) -> bool:
    if (answer.name, answer.count) != (said.name, said.count):
        return False
    if answer.says & Says.LACKING:
        return bool(said.says & Says.NAMED) and not message.data
    asked = said.says & Says.VALUES
    if said.name.number:
        asked |= Says.KEEP
    if said.says & Says.NAMED and not answer.says & Says.KEEP:
        return False
    return answer.says | asked == asked
