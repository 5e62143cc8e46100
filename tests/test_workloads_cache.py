"""The cache of parsed data sets."""

import numpy as np
import pytest

from workloads import cache


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    """Keep every test's cache in a directory of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_arrays_come_back_as_stored():
    """Names, dtypes and contents survive; nothing else is left in the directory."""
    arrays = {"a": np.arange(5, dtype=np.int64), "b": np.array([1.5], dtype=np.float32)}
    assert cache.load("x") is None
    assert cache.store("x", arrays)
    loaded = cache.load("x")
    assert loaded is not None
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
    assert [path.name for path in cache.cache_dir().iterdir()] == ["x.npz"]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not a zip", b"garbage"])
def test_a_damaged_file_counts_as_missing(damage):
    """A file cut short or overwritten leads to a fresh parse, not to an error."""
    cache.store("x", {"a": np.arange(5)})
    (cache.cache_dir() / "x.npz").write_bytes(damage)
    assert cache.load("x") is None


def test_a_truncated_file_counts_as_missing():
    """Half of a file, as a full disk leaves it, is not trusted."""
    cache.store("x", {"a": np.arange(5000)})
    path = cache.cache_dir() / "x.npz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert cache.load("x") is None


def test_another_schema_counts_as_missing(monkeypatch):
    """What an older version stored is not read."""
    cache.store("x", {"a": np.arange(5)})
    monkeypatch.setattr(cache, "SCHEMA", cache.SCHEMA + 1)
    assert cache.load("x") is None


def test_pickled_objects_are_refused():
    """An array that would have to be unpickled is never loaded."""
    cache.store("x", {"a": np.array([object()], dtype=object)})
    assert cache.load("x") is None


def test_an_unwritable_directory_only_costs_the_cache(tmp_path, monkeypatch):
    """Storing below a file fails, says so, and raises nothing."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not cache.store("x", {"a": np.arange(5)})
    assert cache.load("x") is None


def test_a_relative_cache_home_is_ignored(tmp_path, monkeypatch):
    """The XDG specification wants absolute paths only."""
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / ".cache" / "libra"
