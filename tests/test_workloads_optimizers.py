"""The server's optimisers: known values, bits, state and errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import WorkloadError
from workloads.optimizers import OPTIMIZERS, make_optimizer

KEYS = np.array([1, 3], dtype=np.uint64)
GRADIENT = np.array([0.5, -2], dtype=np.float32)


def test_sgd_has_known_values():
    """Only the touched parameters move, by the learning rate times the gradient."""
    params = np.ones(4, dtype=np.float32)
    make_optimizer("sgd", 4, learning_rate=0.25).apply(params, KEYS, GRADIENT)
    assert params.tolist() == [1, 0.875, 1, 1.5]


def test_adagrad_has_known_values():
    """Two steps with squares that sum to perfect squares."""
    optimizer = make_optimizer("adagrad", 4, learning_rate=1.0, epsilon=1e-30)
    params = np.zeros(4, dtype=np.float32)
    keys = np.array([2], dtype=np.uint64)
    optimizer.apply(params, keys, np.array([3], dtype=np.float32))
    assert params.tolist() == [0, 0, -1, 0]
    optimizer.apply(params, keys, np.array([4], dtype=np.float32))
    assert params[2] == np.float32(-1) - np.float32(4) / np.float32(5)
    assert optimizer.state()["accumulator"].tolist() == [0, 0, 25, 0]


def test_momentum_has_known_values():
    """The velocity halves and takes in the gradient; without one it stays as it is."""
    optimizer = make_optimizer("momentum:momentum=0.5", 4, learning_rate=0.25)
    params = np.ones(4, dtype=np.float32)
    optimizer.apply(params, KEYS, GRADIENT)
    assert params.tolist() == [1, 0.875, 1, 1.5]
    optimizer.apply(params, KEYS[:1], GRADIENT[:1])
    assert params.tolist() == [1, 0.875 - 0.25 * 0.75, 1, 1.5]
    optimizer.apply(params, KEYS[1:], GRADIENT[1:])
    assert params[3] == 1.5 + 0.25 * 3
    assert optimizer.state()["velocity"].tolist() == [0, 0.75, 0, -3]


def test_adam_has_known_values():
    """Two steps by hand, with averages that halve: m̂ = 2 and 10 / 3, v̂ = 4 and 12."""
    options = {"learning_rate": 1.0, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-30}
    optimizer = make_optimizer("adam", 4, **options)
    params = np.zeros(4, dtype=np.float32)
    keys = np.array([2], dtype=np.uint64)
    optimizer.apply(params, keys, np.array([2], dtype=np.float32))
    assert params.tolist() == [0, 0, -1, 0]
    optimizer.apply(params, keys, np.array([4], dtype=np.float32))
    assert params[2] == pytest.approx(-1 - (10 / 3) / np.sqrt(12), rel=1e-6)
    state = optimizer.state()
    assert state["mean"].tolist() == [0, 0, 2.5, 0]
    assert state["square"].tolist() == [0, 0, 9, 0]
    assert state["decay1"].tolist() == [1, 1, 0.25, 1]


def test_adam_first_steps_are_of_the_learning_rate():
    """Whenever a parameter is first seen: its clock starts then."""
    optimizer = make_optimizer("adam", 2, learning_rate=0.125)
    params = np.zeros(2, dtype=np.float32)
    for _ in range(50):
        optimizer.apply(params, np.array([0], np.uint64), np.array([3], np.float32))
    optimizer.apply(params, np.array([1], np.uint64), np.array([-7], np.float32))
    assert params[1] == pytest.approx(0.125, rel=1e-4)


def test_adam_equals_the_dense_one_where_all_parameters_are_touched():
    """Against the formulas of the paper in float64, over 20 rounds."""
    random = np.random.default_rng(3)
    optimizer = make_optimizer("adam", 5, learning_rate=0.01)
    params = np.zeros(5, dtype=np.float32)
    wanted, mean, square = np.zeros(5), np.zeros(5), np.zeros(5)
    for step in range(1, 21):
        gradient = random.normal(size=5).astype(np.float32)
        optimizer.apply(params, np.arange(5, dtype=np.uint64), gradient)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient.astype(np.float64) ** 2
        unbiased = mean / (1 - 0.9**step), square / (1 - 0.999**step)
        wanted -= 0.01 * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    np.testing.assert_allclose(params, wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_zero_gradient_changes_nothing(name):
    """A fresh accumulator of 0 and a gradient of 0 do not divide to NaN."""
    params = np.ones(4, dtype=np.float32)
    make_optimizer(name, 4).apply(params, KEYS, np.zeros(2, dtype=np.float32))
    assert params.tolist() == [1, 1, 1, 1]


@given(seed=st.integers(0, 1000), parts=st.integers(1, 5))
@settings(derandomize=True, deadline=None, max_examples=30)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_order_and_grouping_of_keys_do_not_change_a_bit(name, seed, parts):
    """A round applied at once equals the round applied in shuffled pieces."""
    random = np.random.default_rng(seed)
    start = random.normal(size=50).astype(np.float32)
    whole, pieces = start.copy(), start.copy()
    one, other = make_optimizer(name, 50), make_optimizer(name, 50)
    for _ in range(3):
        keys = random.permutation(50)[:30].astype(np.uint64)
        gradient = random.normal(size=30).astype(np.float32)
        one.apply(whole, np.sort(keys), gradient[np.argsort(keys)])
        for part in np.array_split(np.arange(30), parts):
            other.apply(pieces, keys[part], gradient[part])
    assert whole.tobytes() == pieces.tobytes()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_resumes_bit_for_bit(name):
    """A restart from a checkpoint goes on as if nothing had happened."""
    optimizer = make_optimizer(name, 4)
    params = np.ones(4, dtype=np.float32)
    optimizer.apply(params, KEYS, GRADIENT)
    state, resumed_params = optimizer.state(), params.copy()
    optimizer.apply(params, KEYS, GRADIENT)  # must not reach into the checkpoint
    resumed = make_optimizer(name, 4)
    resumed.load_state(state)
    resumed.apply(resumed_params, KEYS, GRADIENT)
    assert params.tobytes() == resumed_params.tobytes()


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("sgd", {"accumulator": np.zeros(4, dtype=np.float32)}),
        ("adagrad", {}),
        ("adagrad", {"accumulator": np.zeros(5, dtype=np.float32)}),
        ("adagrad", {"accumulator": np.zeros(4)}),
        ("momentum", {"accumulator": np.zeros(4, dtype=np.float32)}),
        ("adam", {"mean": np.zeros(4, dtype=np.float32)}),
    ],
)
def test_a_foreign_state_is_refused(name, state):
    """The state of another optimiser or model cannot be loaded."""
    with pytest.raises(WorkloadError, match=f"state of optimiser {name} holds"):
        make_optimizer(name, 4).load_state(state)


@pytest.mark.parametrize(
    ("params", "keys", "gradient", "message"),
    [
        (np.ones(5, np.float32), KEYS, GRADIENT, r"float32\[4\]"),
        (np.ones(4), KEYS, GRADIENT, "parameters float64"),
        (np.ones(4, np.float32), KEYS, GRADIENT.astype(np.float64), "gradient of float64"),
        (np.ones(4, np.float32), KEYS[:1], GRADIENT, "got keys"),
        (np.ones(4, np.float32), KEYS + np.uint64(1), GRADIENT, "key 4; allowed: 0 to 3"),
        (np.ones(4, np.float32), KEYS + np.uint64(2**63), GRADIENT, "allowed: 0 to 3"),
    ],
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_arrays_that_do_not_fit_change_nothing(name, params, keys, gradient, message):
    """The error comes before the first write."""
    before = params.copy()
    with pytest.raises(WorkloadError, match=message):
        make_optimizer(name, 4).apply(params, keys, gradient)
    np.testing.assert_array_equal(params, before)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lamb", {}, "unknown optimiser 'lamb'; known: adagrad, adam, momentum, sgd"),
        ("sgd", {"learning_rate": 1e300}, "sgd: learning_rate is 1e"),
        ("adagrad", {"epsilon": 1e-60}, "adagrad: epsilon is 1e-60"),
        ("adam", {"beta1": 1.0}, "adam: beta1 is 1.0; allowed: a number from 0 to below 1"),
        ("adam", {"beta2": 0.99999999}, "adam: beta2 is"),
        ("momentum:momentum=2", {}, "momentum: momentum is 2.0"),
        ("momentum:nesterov=1", {}, "known: learning_rate, momentum"),
        ("sgd:fast", {}, "cannot read option 'fast'"),
        ("sgd", {"epsilon": 1.0}, "optimiser sgd: unknown option epsilon; known: learning_rate"),
        ("sgd", {"learning_rate": 0.0}, "sgd: learning_rate is 0.0; allowed: a finite number"),
        ("adagrad", {"learning_rate": float("inf")}, "learning_rate is inf"),
        ("adagrad", {"epsilon": -1.0}, "epsilon is -1.0"),
        ("adagrad", {"initial_accumulator": -1.0}, "initial_accumulator is -1.0"),
    ],
)
def test_bad_names_and_options_say_what_is_known(name, options, message):
    """Every refusal names what was given and what is allowed."""
    with pytest.raises(WorkloadError, match=message):
        make_optimizer(name, 4, **options)
