"""Digests: the words of a message, and the call that queues it."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.expressions import Expressions
from softswitch.codegen.layout import is_wide
from softswitch.ir import DigestRef, Field
from softswitch.program import Digest


def digest_words(digest: Digest) -> int:
    """Return the number of 64-bit words of a message; each field takes whole ones."""
    return max(sum((width + 63) // 64 for width in digest.widths), 1)


def send_digest(e: Expressions, digest: Digest, call: DigestRef) -> Iterator[str]:
    """Yield the statement that queues a message."""
    words: list[str] = []
    for item, width in zip(call.items, digest.widths, strict=True):
        if is_wide(width) and isinstance(item, Field):
            count = (width + 63) // 64
            words += [f"({e.wide.number(item, count)})[{i}]" for i in range(count)]
            continue
        text = f"({e.modular(item, width)})"
        for low in range(0, width, 64):
            part = min(64, width - low)
            shifted = f"({text} >> {low})" if low else text
            words.append(f"(uint64_t){shifted} & UINT64_C({(1 << part) - 1})")
    values = ", ".join(words) or "0"
    yield f"{{ const uint64_t w[] = {{{values}}};"
    yield f"  ss_digest_send(c, {digest.index}, w, {digest_words(digest)}); }}"
