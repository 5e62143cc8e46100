"""Data sets by name: MovieLens, synthetic data, splits and errors."""

import hashlib
import itertools

import numpy as np
import pytest

from workloads import cache, movielens
from workloads.datasets import open_dataset
from workloads.errors import WorkloadError


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    """Keep every test's cache in a directory of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_movielens_has_its_published_size():
    """100,004 ratings by 671 people of 9,066 films, each one indicator of either."""
    data = open_dataset("movielens", seed=1)
    assert (len(data.examples), data.num_features, data.task) == (100_004, 671 + 9066, "rating")
    pairs = data.examples.features.reshape(-1, 2)
    assert (pairs[:, 0].max(), pairs[:, 1].min()) == (670, 671)
    assert len(np.unique(pairs, axis=0)) == 100_004
    assert set(np.unique(data.examples.labels * 2)) == set(range(1, 11))
    assert data.examples.labels.mean() == pytest.approx(3.5436, abs=1e-4)


def test_movielens_from_the_cache_is_the_same(monkeypatch):
    """The second opening reads no table, and gives the same arrays."""
    first = open_dataset("movielens", seed=1).examples
    monkeypatch.setattr(movielens, "_read_ratings", lambda: pytest.fail("read again"))
    second = open_dataset("movielens", seed=1).examples
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(first.labels, second.labels)


def test_movielens_with_a_foreign_cache_is_read_again():
    """A cached file with other arrays under the name is replaced."""
    cache.store("movielens", {"users": np.zeros(3)})
    assert len(open_dataset("movielens", seed=1).examples) == 100_004
    assert cache.load("movielens").keys() == {"users", "items", "ratings"}


def test_one_hot_pairs_number_users_then_items():
    """Known values: ids become ranks, items after users."""
    examples, starts = movielens.one_hot_pairs(
        np.array([40, 7, 40]), np.array([5, 5, 900]), np.array([3.0, 0.5, 5.0])
    )
    assert starts.tolist() == [0, 2, 4]
    assert examples.features.tolist() == [1, 2, 0, 2, 1, 3]
    assert examples.indptr.tolist() == [0, 2, 4, 6]
    assert examples.labels.tolist() == [3.0, 0.5, 5.0]


def test_synthetic_is_a_function_of_seed_and_options():
    """Same seed, same data; another seed, others; sizes as asked for."""
    spec = "synthetic:examples=500,features=100,nnz=8"
    first, second, other = (open_dataset(spec, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.examples.features, second.examples.features)
    np.testing.assert_array_equal(first.examples.labels, second.examples.labels)
    assert first.examples.nnz != other.examples.nnz
    assert (len(first.examples), first.num_features, first.task) == (500, 100, "binary")
    assert 1 <= first.examples.row_lengths().min() <= first.examples.row_lengths().max() <= 8


def test_synthetic_rows_hold_each_feature_once():
    """Features rise within a row, so none occurs twice."""
    examples = open_dataset("synthetic:examples=300,features=20,nnz=15", seed=3).examples
    inside = examples.row_of_pair()[1:] == examples.row_of_pair()[:-1]
    assert (np.diff(examples.features)[inside] > 0).all()


def test_synthetic_heat_follows_the_exponent():
    """A larger exponent gives the hottest 1 % of features a larger share of the pairs."""

    def share_of_hottest(exponent: float) -> float:
        spec = f"synthetic:examples=2000,features=1000,nnz=10,exponent={exponent}"
        examples = open_dataset(spec, seed=1).examples
        counts = np.sort(np.bincount(examples.features, minlength=1000))
        return counts[-10:].sum() / examples.nnz

    uniform, zipf, steep = (share_of_hottest(x) for x in (0, 1.1, 2))
    assert uniform < 0.03
    assert 0.3 < zipf < steep


def test_synthetic_data_without_new_options_are_what_they_were():
    """A fixed seed gives the same bytes for good: runs of one version can be compared."""
    examples = open_dataset("synthetic:examples=300,features=500,nnz=7", seed=4).examples
    digest = hashlib.sha256(examples.features.astype("<i8").tobytes())
    assert digest.hexdigest() == "c001670dc9d3bd1791f862e4bbd7294adfb59bb7f9b522f3e704cb35ade99ee2"


def test_synthetic_fields_share_features_and_draws():
    """Draws go round the fields, whose sizes differ by one at most; each has hot features."""
    data = open_dataset("synthetic:examples=2000,features=100,nnz=9,fields=3", seed=1)
    assert data.field_starts.tolist() == [0, 34, 67, 100]
    counts = np.bincount(data.examples.features, minlength=100)
    for start, end in itertools.pairwise(data.field_starts):
        part = np.sort(counts[start:end])
        assert 2000 <= part.sum() <= 3 * 2000
        assert part[-1] > 5 * np.median(part)
    rows = data.examples.row_of_pair()
    first = data.examples.features < 34
    assert np.bincount(rows[first]).max() <= 3


def test_synthetic_cooccurrence_brings_features_together():
    """Of the pairs of features of an example, far fewer are distinct; heat stays."""

    def pairs(cooccurrence):
        spec = f"synthetic:examples=3000,features=2000,nnz=4,cooccurrence={cooccurrence}"
        examples = open_dataset(spec, seed=1).examples
        found = set()
        for i in range(len(examples)):
            row = examples.features[examples.indptr[i] : examples.indptr[i + 1]].tolist()
            found.update(itertools.combinations(row, 2))
        return len(found) / examples.nnz

    assert pairs(0.9) < 0.6 * pairs(0)


def test_synthetic_drift_moves_the_hot_set():
    """The first and the last part of the data have other hot features; without drift the same."""

    def agreement(drift):
        spec = f"synthetic:examples=6000,features=400,nnz=6,drift={drift}"
        examples = open_dataset(spec, seed=1).examples
        hottest = []
        for rows in (np.arange(1000), np.arange(5000, 6000)):
            counts = np.bincount(examples.take(rows).features, minlength=400)
            hottest.append(set(np.argsort(-counts, kind="stable")[:20].tolist()))
        return len(hottest[0] & hottest[1])

    assert agreement(0) >= 15
    assert agreement(0.5) <= 3


def features_of(part):
    """All features of a part of the data, as a list."""
    return [f for block in part.blocks() for f in block.features.tolist()]


def test_split_is_seeded_disjoint_and_complete(tmp_path):
    """Every example is in one part, a tenth of them in the test part."""
    path = tmp_path / "data.svm"
    path.write_text("".join(f"{i % 2} {i}:1\n" for i in range(200)))
    data = open_dataset(f"svmlight:{path}", seed=1)
    train, test = data.split(seed=5)
    assert (len(train), len(test)) == (180, 20)
    trained, tested = features_of(train), features_of(test)
    assert sorted(trained + tested) == list(range(200))
    assert tested == features_of(data.split(seed=5)[1])
    assert tested != features_of(data.split(seed=6)[1])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("imagenet", "unknown data set 'imagenet'; known: movielens, spamassassin"),
        ("movielens:big", "unknown data set"),
        ("svmlight:", "unknown data set 'svmlight:'"),
        ("svmlight", "svmlight:FILE"),
        ("synthetic:colour=1", "unknown option colour; known: cooccurrence, drift, examples"),
        ("synthetic:examples", "cannot read option 'examples'"),
        ("synthetic:examples=many", "cannot read option 'examples=many'"),
        ("synthetic:nnz=4, nnz =5", "option nnz is given twice"),
        ("svmlight:~nobody-of-that-name/x", "there is no such home directory"),
        ("synthetic:examples=1.5", "allowed: an integer from 2"),
        ("synthetic:nnz=nan", "synthetic: nnz is nan"),
        ("synthetic:exponent=-1", "synthetic: exponent is -1"),
        ("synthetic:fields=21", "synthetic: fields is 21.0; allowed: an integer from 1 to 20"),
        ("synthetic:cooccurrence=2", "synthetic: cooccurrence is 2"),
        ("synthetic:drift=nan", "synthetic: drift is nan"),
    ],
)
def test_bad_names_and_options_say_what_is_known(spec, message):
    """Every refusal names what was given and what is allowed."""
    with pytest.raises(WorkloadError, match=message):
        open_dataset(spec, seed=1)


def test_synthetic_data_are_bounded() -> None:
    """More draws than fit in memory are refused before any is made."""
    with pytest.raises(WorkloadError, match="draws together"):
        open_dataset("synthetic:examples=100000000,features=100,nnz=10000", 1)
