"""Words about keys: what a push or a pull, or the answer to one, leaves out.

Two thirds of a push of float32 values, and of the answer to a pull, are keys that the other end
may have. Nodes that both know these words leave them out (docs/pslite.md, "Keys that are left
out"). A word is the `body` of the message, 63 bytes of ASCII with numbers in hexadecimal digits:

    keys/1 ‖ says:2 ‖ slot:2 ‖ nonce:16 ‖ number:16 ‖ count:16, with a space before each number

The C++ library looks at no body of a push, a pull or an answer, but prints it if it is told to.
"""

import re
from dataclasses import dataclass
from enum import IntFlag

from host_stack.kv.errors import WireError
from host_stack.kv.wire import Meta

MARK = b"keys/1 "
"""How no refusal begins (`host_stack.kv.refusal`)."""

SLOTS = 16
"""Arrays of keys that a server keeps for each worker."""

MIN_KEYS = 16_384
"""From so many keys at a server on, leaving them out saves more than the words cost."""

_FORM = re.compile(MARK + b" ".join(b"([0-9a-f]{%d})" % digits for digits in (2, 2, 16, 16, 16)))


class Says(IntFlag):
    """What a word says; in an answer of what it answers."""

    NOTHING = 0
    VALUES = 1
    """Request: values alone are enough of an answer. Answer: its frame of keys is empty."""
    KEEP = 2
    """Request: these keys come again under this name. Answer: the server has them."""
    NAMED = 4
    """Request: the keys are those of this name, the frame of keys is empty."""
    LACKING = 8
    """Answer: nothing was done, for the server does not have the keys of this name."""


_REQUESTS = (
    Says.VALUES,
    Says.KEEP,
    Says.NAMED,
    Says.VALUES | Says.KEEP,
    Says.VALUES | Says.NAMED,
)
_ANSWERS = (Says.NOTHING, Says.VALUES, Says.KEEP, Says.VALUES | Says.KEEP, Says.LACKING)


@dataclass(frozen=True, slots=True)
class Name:
    """Of an array of keys: what no other array of any process has had.

    Attributes:
        nonce: 64 random bits of the worker.
        slot: 0 to 15; the server keeps one array in each.
        number: which array of the worker, from 1; 0 in a word about none.
    """

    nonce: int = 0
    slot: int = 0
    number: int = 0


NO_NAME = Name()


@dataclass(frozen=True, slots=True)
class Word:
    """A word about `count` keys."""

    says: Says
    count: int
    name: Name = NO_NAME

    def encode(self) -> bytes:
        """The body of a message."""
        name = self.name
        numbers = self.says, name.slot, name.nonce, name.number, self.count
        return MARK + b"%02x %02x %016x %016x %016x" % numbers


def word_of(meta: Meta) -> Word | None:
    """The word in a push, a pull or an answer to one, or None.

    Raises WireError for one that begins as a word and is none.
    """
    body = meta.body
    if not body.startswith(MARK):
        return None
    found = _FORM.fullmatch(body)
    if found is None:
        raise WireError(f"{body[:80]!r} is no word about keys")
    says, slot, nonce, number, count = (int(digits, 16) for digits in found.groups())
    if says not in (_REQUESTS if meta.request else _ANSWERS):
        raise WireError(f"a word about keys says {says}, which means nothing here")
    if says & Says.VALUES and not meta.pull:
        raise WireError("a word asks a push for values")
    if slot >= SLOTS:
        raise WireError(f"a word names slot {slot}, there are {SLOTS}")
    if meta.request and (number != 0) != bool(says & (Says.KEEP | Says.NAMED)):
        raise WireError(f"a word that says {says} has the name {number}")
    return Word(Says(says), count, Name(nonce, slot, number))
