"""Words and pairs of words as features."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.hashing import fnv1a_of
from workloads.words import word_features


def by_text(texts: list[bytes], words: int) -> list[list[int]]:
    """The features of each text, as lists."""
    counts, hashes = word_features(texts, words)
    ends = counts.cumsum().tolist()
    return [
        hashes[end - count : end].tolist() for end, count in zip(ends, counts.tolist(), strict=True)
    ]


def test_known_features() -> None:
    """Lower case, digits, any separator, each feature once, no pair across texts."""
    found = by_text([b"To: Foo@bar\xe9x", b"", b"--", b"foo FOO foo"], 2)
    names = [b"to", b"foo", b"bar", b"x", b"to foo", b"foo bar", b"bar x"]
    assert found[0] == sorted(fnv1a_of(name) for name in names)
    assert found[1:3] == [[], []]
    assert found[3] == sorted(fnv1a_of(name) for name in (b"foo", b"foo foo"))
    assert by_text([b"foo FOO bar"], 1)[0] == sorted(fnv1a_of(name) for name in (b"foo", b"bar"))


def test_nothing_has_no_features() -> None:
    """No text at all, or one without words."""
    assert by_text([], 2) == []
    assert by_text([b""], 1) == [[]]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    texts=st.lists(st.text(alphabet="aB0 \n-é", max_size=15), max_size=5), words=st.integers(1, 2)
)
def test_features_are_those_of_a_plain_reading(texts: list[str], words: int) -> None:
    """Against a reading with regular expressions."""
    wanted = []
    for text in texts:
        found = re.findall(rb"[a-z0-9]+", text.encode().lower())
        pairs = [a + b" " + b for a, b in pairwise(found)]
        wanted.append(sorted({fnv1a_of(name) for name in found + pairs * (words == 2)}))
    assert by_text([text.encode() for text in texts], words) == wanted
