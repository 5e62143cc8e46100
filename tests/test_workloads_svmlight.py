"""The svmlight reader: round trips, every malformed line, and the cache."""

import gzip
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import cache, lines, store, svmlight
from workloads.errors import WorkloadError


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    """Keep every test's cache in a directory of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path):
    """Write bytes to a file and return its path."""

    def write_bytes(content: bytes):
        path = tmp_path / "data.svm"
        path.write_bytes(content)
        return path

    return write_bytes


def test_a_small_file_reads_as_written(write):
    """Comments, blank lines, empty examples, order of ids and both line endings."""
    path = write(b"# head\n+1 3:0.5 10:2e-1 # tail 4:1\r\n\n-1\n-1 10:1 7:-4\n1 3:.25")
    examples, ids = read(path)
    assert ids.tolist() == [3, 7, 10]
    assert examples.labels.tolist() == [1, 0, 0, 1]
    assert examples.indptr.tolist() == [0, 2, 2, 4, 5]
    assert examples.features.tolist() == [0, 2, 2, 1, 0]
    np.testing.assert_array_equal(examples.values, np.float32([0.5, 0.2, 1, -4, 0.25]))


def read(path):
    """Return examples and ids of a file, whatever is in the cache."""
    return store.store("read", svmlight.blocks(path))


LINES = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.dictionaries(
            st.integers(0, svmlight.MAX_ID), st.floats(width=32, allow_nan=False), max_size=5
        ).map(lambda pairs: {k: v for k, v in pairs.items() if np.isfinite(v)}),
    ),
    min_size=1,
    max_size=20,
)


@given(written=LINES)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_any_file_reads_back(written, tmp_path_factory):
    """Ids up to 63 bits and every finite float32 come back exactly."""
    path = tmp_path_factory.mktemp("svm") / "data.svm"
    path.write_text(
        "".join(f"{y} {' '.join(f'{k}:{v!r}' for k, v in x.items())}\n" for y, x in written)
    )
    examples, ids = read(path)
    for i, (label, pairs) in enumerate(written):
        row = slice(examples.indptr[i], examples.indptr[i + 1])
        assert examples.labels[i] == label
        assert ids[examples.features[row]].tolist() == list(pairs)
        assert examples.values[row].tolist() == list(pairs.values())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"2 1:1", "label '2'"),
        (b"nan 1:1", "label 'nan'"),
        (b"1:1 2:1", "label '1:1'"),
        (b"+1 3", "'3'; need id:value"),
        (b"+1 3:1:2 4", "the value must be a finite"),
        (b"+1 3:", "'3:': the value"),
        (b"+1 :3", "':3'; need id:value"),
        (b"+1 -3:1", "'-3:1'; need id:value"),
        (b"+1 +3:1", "need id:value"),
        (b"+1 1.5:1", "need id:value"),
        (b"+1 1_0:1", "need id:value"),
        (b"+1 qid:1", "need id:value"),
        (b"+1 9223372036854775808:1", "need id:value"),
        (b"+1 " + b"9" * 5000 + b":1", "need id:value"),
        (b"+1 3:inf", "'3:inf': the value"),
        (b"+1 3:nan", "the value"),
        (b"+1 3:1e39", "the value"),
        (b"+1 3:1e999", "the value"),
        (b"+1 3:1_0", "the value"),
        (b"+1 3:e", "the value"),
        (b"+1 3:1 4:1 3:2", "feature 3 occurs twice"),
        (b"\x00\xff 3:1", r"label '\\x00\\\\xff'"),
    ],
)
@pytest.mark.parametrize("block_bytes", [lines.BLOCK_BYTES, 16])
def test_a_malformed_line_is_named(write, monkeypatch, line, message, block_bytes):
    """The error has file, line and reason, wherever blocks of lines end."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = write(b"+1 1:1\n# comment\n-1 3:2 1:1\n" + line + b"\n+1 1:1\n")
    with pytest.raises(WorkloadError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, line 4: ")


def test_blocks_do_not_change_the_result(write, monkeypatch):
    """A file read in many blocks equals the same file read in one."""
    path = write(b"".join(b"%d %d:1 %d:2.5\n" % (i % 2, i % 7, 9 + i) for i in range(300)))
    whole, whole_ids = read(path)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    blocks, block_ids = read(path)
    np.testing.assert_array_equal(whole_ids, block_ids)
    for field in ("indptr", "features", "values", "labels"):
        np.testing.assert_array_equal(getattr(whole, field), getattr(blocks, field))


def test_mixed_label_conventions_are_refused_at_their_first_line(write):
    """0 after -1, or -1 after 0, cannot mean anything."""
    path = write(b"+1 1:1\n-1 1:1\n\n0 1:1\n-1 1:1\n")
    with pytest.raises(WorkloadError, match="line 4: label 0 in a file with both 0 and -1"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\n# only a comment\n"])
def test_a_file_without_examples_is_refused(write, content):
    """There is nothing to train on."""
    with pytest.raises(WorkloadError, match="holds no example"):
        svmlight.load(write(content))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    """A missing file and a directory get errors that name the path."""
    with pytest.raises(WorkloadError, match=r"absent\.svm: No such file"):
        svmlight.load(tmp_path / "absent.svm")
    with pytest.raises(WorkloadError, match="not a regular file"):
        svmlight.load(tmp_path)


def test_a_second_load_comes_from_the_cache_until_the_file_changes(write, monkeypatch):
    """The cache serves the same examples, and never those of another version of the file."""
    path = write(b"1 5:1\n0 6:2\n")
    first, num_features = svmlight.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(svmlight, "blocks", lambda path: pytest.fail("parsed again"))
        second, again = svmlight.load(path)
    assert num_features == again == 2
    for field in ("indptr", "features", "values", "labels"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    path.write_bytes(b"1 5:1\n0 7:3\n")
    os.utime(path, ns=(0, 12345))
    assert svmlight.load(path)[0].values.tolist() == [1, 3]


def test_a_cache_that_contradicts_itself_is_rebuilt(write):
    """Feature ids out of range in the cached file lead to a fresh parse."""
    path = write(b"1 5:1\n0 6:2\n")
    svmlight.load(path)
    (folder,) = cache.cache_dir().iterdir()
    (folder / "features").write_bytes(np.array([99, 1], "<i8").tobytes())
    assert svmlight.load(path)[0].features.tolist() == [0, 1]


def test_compressed_files_and_conventions_across_blocks(tmp_path, monkeypatch):
    """A .gz file reads as its content; a mixture of labels is found between blocks too."""
    path = tmp_path / "data.svm.gz"
    path.write_bytes(gzip.compress(b"+1 1:1\n-1 2:1\n"))
    assert read(path)[0].labels.tolist() == [1, 0]
    path.write_bytes(gzip.compress(b"+1 1:1\n-1 2:1\n+1 1:1\n0 5:1\n"))
    monkeypatch.setattr(lines, "BLOCK_BYTES", 8)
    with pytest.raises(WorkloadError, match="line 4: label 0 in a file with both"):
        read(path)
    path.write_bytes(gzip.compress(b"+1 1:1\n" * 99)[:-9])
    with pytest.raises(WorkloadError, match="cannot read svmlight file"):
        read(path)
    path.write_bytes(b"+1 1:1\n")
    with pytest.raises(WorkloadError, match="Not a gzipped file"):
        read(path)


def test_an_endless_line_is_refused(write, monkeypatch):
    """It is not read into memory as a whole."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    path = write(b"+1 1:1\n" + b"#" * 1000)
    with pytest.raises(WorkloadError, match="line 2: longer than 100 bytes"):
        read(path)
