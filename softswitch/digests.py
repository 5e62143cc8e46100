"""Digests of a running switch: messages of packets, taken out of the data plane's ring."""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping

from softswitch.binding import u64_array, words
from softswitch.codegen.digests import digest_words
from softswitch.engine import Handle
from softswitch.program import Digest

Message = tuple[int, ...]
"""The values of a digest's fields."""

_ROOM = 512


class DigestQueue:
    """The digests of a running switch. Thread-safe.

    A message that was sent is not sent again before it is forgotten (`forget`, `enable`).
    """

    def __init__(self, digests: Mapping[str, Digest], switch: Handle) -> None:
        self._digests = digests
        self._by_index = list(digests.values())
        self._switch = switch
        self._size = 1 + max((digest_words(d) for d in self._by_index), default=1)
        self._event = switch.lib.ss_digest_event(switch.ctx)

    def enable(self, name: str, enabled: bool) -> None:
        """Let packets send a digest, or not; every message is forgotten."""
        with self._switch.lock:
            self._switch.lib.ss_digest_enable(
                self._switch.ctx, self._digests[name].index, int(enabled)
            )

    def wait(self, timeout_s: float) -> None:
        """Wait until there are messages, `wake` is called or the time is over."""
        poll = select.poll()
        poll.register(self._event, select.POLLIN)
        poll.poll(max(timeout_s, 0) * 1000)

    def wake(self) -> None:
        """End somebody's `wait`."""
        with self._switch.lock:
            self._switch.lib.ss_digest_wake(self._switch.ctx)

    def take(self) -> list[tuple[str, Message]]:
        """Return the waiting messages by the name of their digest, at most 512."""
        out = u64_array([0] * (_ROOM * self._size))
        with self._switch.lock:
            count = self._switch.lib.ss_digest_take(self._switch.ctx, out, _ROOM)
        return [
            self._message(out[i : i + self._size]) for i in range(0, count * self._size, self._size)
        ]

    def forget(self, name: str, messages: Iterable[Message]) -> None:
        """Let packets send these messages again."""
        digest = self._digests[name]
        flat: list[int] = []
        count = 0
        for message in messages:
            flat += words(message, digest.widths) or [0]
            count += 1
        data, size = u64_array(flat), digest_words(digest)
        with self._switch.lock:
            self._switch.lib.ss_digest_forget(self._switch.ctx, digest.index, data, size, count)

    def _message(self, raw: list[int]) -> tuple[str, Message]:
        digest = self._by_index[raw[0]]
        values: list[int] = []
        at = 1
        for width in digest.widths:
            count = (width + 63) // 64
            values.append(sum(word << 64 * i for i, word in enumerate(raw[at : at + count])))
            at += count
        return digest.name, tuple(values)
