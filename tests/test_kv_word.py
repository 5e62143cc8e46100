"""Words about keys: golden bytes, and bodies that are none."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from host_stack.kv.errors import WireError
from host_stack.kv.refusal import reason_body
from host_stack.kv.wire import Meta, decode, encode
from host_stack.kv.word import MARK, NO_NAME, SLOTS, Name, Says, Word, word_of

NAME = Name(0x1122334455667788, 3, 7)
KEEP = Word(Says.KEEP, 20_000, NAME)
NAMED = Word(Says.NAMED | Says.VALUES, 20_000, NAME)
VALUES = Word(Says.VALUES, 20_000)
LACKING = Word(Says.LACKING, 20_000, NAME)

GOLDEN = {
    "push whose keys come again": (
        "keys/1 02 03 1122334455667788 0000000000000007 0000000000004e20",
        "2001 2801 3000 3800 4004 4a020809 5000 6000 6800",
        KEEP,
        {"request": True, "push": True, "data_types": (8, 9)},
    ),
    "push and pull without keys": (
        "keys/1 05 03 1122334455667788 0000000000000007 0000000000004e20",
        "2001 2801 3000 3800 4004 4a020809 5000 6001 6800",
        NAMED,
        {"request": True, "push": True, "pull": True, "data_types": (8, 9)},
    ),
    "answer without keys": (
        "keys/1 01 00 0000000000000000 0000000000000000 0000000000004e20",
        "2000 2800 3000 3800 4004 4a020809 5000 6001 6800",
        VALUES,
        {"pull": True, "data_types": (8, 9)},
    ),
    "answer that lacks the keys": (
        "keys/1 08 03 1122334455667788 0000000000000007 0000000000004e20",
        "2000 2801 3000 3800 4004 5000 6000 6800",
        LACKING,
        {"push": True},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    """Whole metadata frames with a word, both ways."""
    body, rest, word, fields = GOLDEN[name]
    frame = bytes.fromhex("0800 123f") + body.encode() + bytes.fromhex(rest)
    meta = Meta(head=0, app_id=0, customer_id=0, timestamp=4, body=word.encode(), **fields)
    assert encode(meta).hex(" ") == frame.hex(" ")
    assert word_of(decode(frame)) == word


WORDS = st.builds(
    Word,
    st.sampled_from([Says(number) for number in range(16)]),
    st.integers(0, 2**64 - 1),
    st.builds(
        Name, st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1)
    ),
)


@settings(derandomize=True, max_examples=300)
@given(WORDS, st.booleans(), st.booleans())
def test_words_are_read_as_written_or_refused(word: Word, request: bool, pull: bool) -> None:
    """Refused is what means nothing where it stands."""
    meta = Meta(request=request, push=not pull, pull=pull, body=word.encode())
    says = word.says
    kinds = (says & Says.KEEP) + (says & Says.NAMED) + (says & Says.LACKING)
    if request:
        means = says and not says & Says.LACKING and kinds in (0, Says.KEEP, Says.NAMED)
        means = means and bool(kinds) == bool(word.name.number)
    else:
        means = not says & Says.NAMED and (says == Says.LACKING or not says & Says.LACKING)
    if means and (pull or not says & Says.VALUES) and word.name.slot < SLOTS:
        assert word_of(meta) == word
    else:
        with pytest.raises(WireError):
            word_of(meta)


@settings(derandomize=True, max_examples=300)
@given(
    st.binary(max_size=70) | st.text("0123456789abcdefABCDEF +-_x\n", max_size=70), st.booleans()
)
@example(KEEP.encode()[len(MARK) : -1], True)
@example(KEEP.encode()[len(MARK) :] + b"\n", True)
@example(KEEP.encode()[len(MARK) :].upper() + b"A", True)
@example(b"", False)
def test_no_bytes_do_more_than_be_refused(rest: bytes | str, request: bool) -> None:
    """Of whatever length; what does not begin as a word is none, and left to others."""
    rest = rest if isinstance(rest, bytes) else rest.encode()
    try:
        word = word_of(Meta(request=request, pull=True, body=MARK + rest))
    except WireError:
        pass
    else:
        assert word is not None
        assert word.encode() == MARK + rest
    if not rest.startswith(MARK):
        assert word_of(Meta(request=request, pull=True, body=rest)) is None


@given(st.text())
@example(KEEP.encode().decode())
@example(MARK.decode())
def test_no_refusal_is_a_word(reason: str) -> None:
    """Whatever its reason begins with."""
    assert word_of(Meta(pull=True, body=reason_body(reason))) is None


def test_a_word_about_no_array_has_no_name() -> None:
    """The number 0 is no array's."""
    assert word_of(Meta(request=True, pull=True, body=VALUES.encode())) == VALUES
    assert VALUES.name is NO_NAME
