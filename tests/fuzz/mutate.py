"""Mutations of bytes and of JSON. All are functions of a random.Random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Json = Any
Place = tuple[Json, Any]
"""A container and the key or index of one of its elements."""

NUMBERS = [0, 1, -1, 7, 8, 9, 127, 128, 255, 256, 511, 512, 65535, 65536, 2**31 - 1, 2**31]
NUMBERS += [2**32, 2**63, 2**64 - 1, 2**64, -(2**63), 10**40]
SCALARS: list[Json] = [
    None,
    True,
    False,
    1.5,
    "",
    "x",
    "0x",
    "0x0",
    "0xff",
    "-0x1",
    "scalars",
    "\0",
]
SCALARS += ["0x" + "f" * 70, "é\U0001f600", [], {}, [[]], ["a", "b"], {"type": "hexstr"}]


def mutate_bytes(rng: random.Random, data: bytes, others: list[bytes], limit: int) -> bytes:
    """Change a few bytes, or cut, repeat, insert, or splice with another input."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _mutate_once(rng, out, others)
    return bytes(out[:limit])


def _mutate_once(rng: random.Random, out: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(out) + 1)
    match rng.randrange(8):
        case 0 if at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(out):
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        case 2:
            size = rng.choice((1, 2, 4, 8))
            number = rng.choice(NUMBERS) % (1 << 8 * size)
            out[at : at + size] = number.to_bytes(size, rng.choice(("big", "little")))
        case 3:
            del out[at:]
        case 4:
            del out[at : at + rng.randint(1, 16)]
        case 5:
            out[at:at] = rng.randbytes(rng.randint(1, 40))
        case 6:
            out[at:at] = out[at : at + rng.randint(1, 64)]
        case _ if others:
            other = rng.choice(others)
            out[at:] = other[rng.randrange(len(other) + 1) :]


def mutate_json(rng: random.Random, document: Json) -> Json:
    """Change a few places of a document (in place) so that most of it keeps its sense."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            return rng.choice(SCALARS)
        _mutate_place(rng, rng.choice(places), places)
    return document


def _places(node: Json) -> Iterator[Place]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _mutate_place(rng: random.Random, place: Place, places: list[Place]) -> None:
    container, key = place
    value = container[key]
    match rng.randrange(8):
        case 0:
            del container[key]
        case 1:
            container[key] = rng.choice(SCALARS)
        case 2:
            container[key] = rng.choice(NUMBERS)
        case 3 if isinstance(value, int) and not isinstance(value, bool):
            container[key] = value + rng.choice((-1, 1, 8, 100))
        case 4 if isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), _copy(value))
        case 5 if isinstance(value, str):
            container[key] = rng.choice(_alike(places, str))
        case 6 if isinstance(container, list):
            other = rng.randrange(len(container))
            container[key], container[other] = container[other], container[key]
        case _:
            container[key] = _copy(rng.choice(_alike(places, type(value))))


def _alike(places: list[Place], kind: type) -> list[Json]:
    return [c[k] for c, k in places if type(c[k]) is kind] or SCALARS


def _copy(value: Json) -> Json:
    return json.loads(json.dumps(value))
