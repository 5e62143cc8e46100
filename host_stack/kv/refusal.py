"""Refusals: answers that say why a push or a pull does not count.

ps-lite has none. Here an answer with a body is one, unless that is a word about keys: no other
answer to a push or a pull has a body. It bears the mark of a pull and brings no values, so that a
worker of the C++ library, which does not look at bodies, ends with a failed check and does not take
its push for counted.
"""

from host_stack.kv.errors import KVRefused
from host_stack.kv.ids import describe
from host_stack.kv.message import Message
from host_stack.kv.word import MARK

MAX_REASON_BYTES = 500


def reason_body(reason: str) -> bytes:
    """The body of a refusal; no word about keys."""
    body = reason.encode()[:MAX_REASON_BYTES]
    return b" " + body if body.startswith(MARK) else body


def raise_refusal(message: Message) -> None:
    """Raise KVRefused if an answer to a push or pull is a refusal."""
    if message.meta.body:
        text = message.meta.body[:MAX_REASON_BYTES].decode(errors="replace")
        words = "".join(each if each.isprintable() else " " for each in text)
        raise KVRefused(f"{describe(message.peer or 0)} refuses: {words}")
