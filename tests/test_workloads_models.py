"""Factorisation machine and logistic regression: known values, derivatives, layout of keys."""

import itertools

import numpy as np
import pytest

from tests.sparse_examples import make_examples
from workloads import dlrm
from workloads.datasets import Dataset
from workloads.errors import WorkloadError
from workloads.examples import Examples
from workloads.losses import LogisticLoss, SquaredLoss
from workloads.models import MAX_KEYS, make_model

NO_LABELS = np.zeros(0, dtype=np.float32)


def build(name, task, num_features=9, labels=NO_LABELS, fields=(), **options):
    """Make a model whose bias starts at the best constant for `labels`, 0 if none matter."""
    labels = labels if len(labels) else np.array([0, 0], dtype=np.float32)
    starts = np.array([0, *fields, num_features])
    return make_model(name, Dataset("test", task, make_examples([1]), starts), labels, options)


def test_fm_score_and_gradient_have_known_values():
    """Worked by hand: rank 2, features 0 and 2 with values 1 and 2, rating 3."""
    model = build("fm", "rating", num_features=3, rank=2)
    assert model.num_keys == 10
    params = np.zeros(10, dtype=np.float32)
    params[:] = [0.5, 1, 2, 9, 9, 9, -0.25, 3, -1, 0.125]  # w0 is last; feature 1 is not touched
    one = Examples(
        np.array([0, 2]),
        np.array([0, 2]),
        np.array([1, 2], dtype=np.float32),
        np.array([3], dtype=np.float32),
    )
    # 0.125 + 0.5·1 - 0.25·2 + <(1, 2), (3, -1)>·1·2 = 2.125
    assert model.scores(one, params).tolist() == [2.125]
    keys = model.batch_keys(one)
    assert keys.dtype == np.uint64
    assert keys.tolist() == [0, 1, 2, 6, 7, 8, 9]
    gradient, loss = model.gradient(one, keys, params[keys])
    slope = 2.125 - 3
    assert loss == pytest.approx(slope**2 / 2)
    # d/dv_0 = x_0 x_2 v_2, d/dv_2 = x_0 x_2 v_0, d/dw = x, d/dw0 = 1
    assert gradient.dtype == np.float32
    wanted = slope * np.array([1, 6, -2, 2, 2, 4, 1])
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6)


def test_lr_score_and_gradient_have_known_values():
    """Worked by hand: one example of each label."""
    model = build("lr", "binary", num_features=3)
    params = np.array([np.log(2), 7, np.log(3), 0], dtype=np.float32)
    two = Examples(
        np.array([0, 1, 2]),
        np.array([0, 2]),
        np.ones(2, dtype=np.float32),
        np.array([1, 0], dtype=np.float32),
    )
    np.testing.assert_allclose(model.predict(two, params), [2 / 3, 3 / 4], rtol=1e-6)
    keys = model.batch_keys(two)
    assert keys.tolist() == [0, 2, 3]
    gradient, loss = model.gradient(two, keys, params[keys])
    np.testing.assert_allclose(gradient, [-1 / 6, 3 / 8, 5 / 24], rtol=1e-6)
    assert loss == pytest.approx((np.log(3 / 2) + np.log(4)) / 2, rel=1e-6)


def test_dlrm_score_has_a_known_value():
    """Worked by hand: two fields, of 2 and 1 features, rows of 2, 2 hidden units."""
    model = build("dlrm", "rating", num_features=3, fields=(2,), dim=2, hidden=2)
    assert (model.inputs, model.num_dense, model.num_keys) == (5, 15, 21)
    rows = [1, 2, 3, -1, 0.5, 4]
    # Inputs are the two fields' rows and their product; unit 0 adds all, unit 1 takes off 100.
    weights = [1, 0] * 4 + [0.25, -100]
    dense = [*weights, 10, 20, 0.5, 7, -2]
    params = np.array([*rows, *dense], dtype=np.float32)
    one = Examples(
        np.array([0, 3]),
        np.array([0, 1, 2]),
        np.array([1, 2, -1], dtype=np.float32),
        np.array([3], dtype=np.float32),
    )
    # Fields: (1, 2) + 2·(3, -1) = (7, 0) and -(0.5, 4); product -3.5; unit 0 is
    # 7 + 0 - 0.5 - 4 - 3.5 / 4 + 10 = 11.625, unit 1 is 350 + 20 = 370.
    assert model.scores(one, params).tolist() == [0.5 * 11.625 + 7 * 370 - 2]
    keys = model.batch_keys(one)
    assert keys.tolist() == list(range(21))
    gradient, _ = model.gradient(one, keys, params)
    slope = model.scores(one, params)[0] - 3
    assert gradient[-1] == slope
    assert gradient[-3:-1].tolist() == [slope * 11.625, slope * 370]


def test_dlrm_rectifies_and_keeps_fields_apart():
    """A hidden unit below 0 passes nothing on; a batch without a field leaves its rows alone."""
    model = build("dlrm", "binary", num_features=3, fields=(2,), dim=1, hidden=1)
    params = np.array([1, 1, 1, 1, 1, 1, -50, 1, 0.25], dtype=np.float32)
    one = Examples(
        np.array([0, 1]), np.array([1]), np.ones(1, np.float32), np.array([1], dtype=np.float32)
    )
    assert model.scores(one, params).tolist() == [0.25]
    keys = model.batch_keys(one)
    assert keys.tolist() == [1, 3, 4, 5, 6, 7, 8]
    gradient, _ = model.gradient(one, keys, params[keys])
    assert gradient[:-1].tolist() == [0] * 6
    assert gradient[-1] < 0


def test_dlrm_scores_many_examples_in_parts(monkeypatch):
    """As all at once."""
    model = build("dlrm", "binary", fields=(3,))
    examples = make_examples([2, 0, 3, 1, 4, 2, 2])
    params = model.initial_params(1)
    whole = model.scores(examples, params)
    monkeypatch.setattr(dlrm, "_EXAMPLES_AT_ONCE", 2)
    np.testing.assert_array_equal(model.scores(examples, params), whole)
    assert len(set(whole.tolist())) > 4


def test_dlrm_starts_from_seeded_parameters():
    """Embeddings and weights of the deviations asked for, biases 0 but the last."""
    labels = np.array([3, 4], dtype=np.float32)
    model = build("dlrm", "rating", num_features=2000, fields=(900,), labels=labels, hidden=64)
    params = model.initial_params(1)
    assert params.dtype == np.float32
    assert params[: 2000 * 8].std() == pytest.approx(0.1, rel=0.05)
    weights = params[2000 * 8 :][: model.inputs * 64]
    assert weights.std() == pytest.approx(np.sqrt(2 / 17), rel=0.05)
    assert not params[-64 - 64 - 1 : -64 - 1].any()
    assert params[-1] == 3.5
    assert params.tobytes() == model.initial_params(1).tobytes()
    assert params.tobytes() != model.initial_params(2).tobytes()


def test_fm_scores_match_the_definition():
    """The linear-time formula equals the sum over pairs of features."""
    examples = make_examples([3, 0, 5, 1], seed=4)
    model = build("fm", "rating", rank=3)
    params = np.random.default_rng(5).normal(size=model.num_keys)
    table = params[:-1].reshape(9, 4)
    for i, score in enumerate(model.scores(examples, params)):
        row = range(examples.indptr[i], examples.indptr[i + 1])
        pairs = [(table[examples.features[j]], float(examples.values[j])) for j in row]
        wanted = params[-1] + sum(theta[0] * x for theta, x in pairs)
        for (left, x), (right, y) in itertools.combinations(pairs, 2):
            wanted += left[1:] @ right[1:] * x * y
        assert score == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "task", "options"),
    [
        ("fm", "rating", {"rank": 3, "l2": 0.0}),
        ("fm", "rating", {"rank": 3, "l2": 0.3}),
        ("fm", "binary", {"rank": 1, "l2": 0.1}),
        ("lr", "binary", {"l2": 0.0}),
        ("lr", "binary", {"l2": 0.3}),
        ("dlrm", "rating", {"dim": 2, "hidden": 3, "fields": (2, 5)}),
        ("dlrm", "binary", {"dim": 3, "hidden": 2, "l2": 0.3, "fields": (4,)}),
        ("dlrm", "binary", {"dim": 1, "hidden": 4}),
    ],
)
def test_gradient_matches_finite_differences(name, task, options):
    """Central differences of the returned loss in float64, for every touched key."""
    model = build(name, task, **options)
    batch = make_examples([2, 0, 4, 3, 1, 6], seed=6)
    keys = model.batch_keys(batch)
    params = np.random.default_rng(7).normal(size=len(keys))
    gradient, _ = model.gradient(batch, keys, params)
    step = 1e-5
    for i in range(len(keys)):
        shift = np.zeros(len(keys))
        shift[i] = step
        _, above = model.gradient(batch, keys, params + shift)
        _, below = model.gradient(batch, keys, params - shift)
        assert gradient[i] == pytest.approx((above - below) / (2 * step), abs=1e-7)


@pytest.mark.parametrize(
    ("name", "task"), [("fm", "rating"), ("fm", "binary"), ("lr", "binary"), ("dlrm", "binary")]
)
def test_float32_gradient_is_repeatable_and_close_to_float64(name, task):
    """The same bits each time, within rounding of the gradient in double precision."""
    model = build(name, task, num_features=40)
    batch = make_examples([7] * 200, seed=8, num_features=40)
    keys = model.batch_keys(batch)
    params = np.random.default_rng(9).normal(size=len(keys)).astype(np.float32)
    gradient, _ = model.gradient(batch, keys, params)
    assert gradient.dtype == np.float32
    assert gradient.tobytes() == model.gradient(batch, keys, params)[0].tobytes()
    precise, _ = model.gradient(batch, keys, params.astype(np.float64))
    np.testing.assert_allclose(gradient, precise, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "task"), [("fm", "rating"), ("lr", "binary")])
def test_batches_without_pairs_touch_the_bias_alone(name, task):
    """Examples with no feature still train the bias."""
    model = build(name, task)
    empty = make_examples([0, 0])
    keys = model.batch_keys(empty)
    assert keys.tolist() == [model.num_keys - 1]
    gradient, _ = model.gradient(empty, keys, np.array([0.25], dtype=np.float32))
    assert gradient.shape == (1,)
    assert gradient[0] != 0


@pytest.mark.parametrize(("name", "task"), [("fm", "rating"), ("lr", "binary"), ("dlrm", "rating")])
def test_keys_of_another_batch_are_refused(name, task):
    """A gradient for keys that are not the batch's would land on the wrong parameters."""
    model = build(name, task)
    batch, other = make_examples([2, 2]), make_examples([5, 5, 5], seed=1)
    keys = model.batch_keys(other)
    assert len(keys) != len(model.batch_keys(batch))
    with pytest.raises(WorkloadError, match="pass batch_keys"):
        model.gradient(batch, keys, np.zeros(len(keys), dtype=np.float32))


def test_initial_parameters_are_seeded():
    """Normal factors of the asked deviation, linear weights 0, the bias the mean rating."""
    labels = np.array([3, 4], dtype=np.float32)
    model = build("fm", "rating", num_features=2000, labels=labels, init_scale=0.02)
    params = model.initial_params(1)
    table = params[:-1].reshape(2000, 9)
    assert params.dtype == np.float32
    assert params[-1] == 3.5
    assert not table[:, 0].any()
    assert table[:, 1:].std() == pytest.approx(0.02, rel=0.05)
    assert params.tobytes() == model.initial_params(1).tobytes()
    assert params.tobytes() != model.initial_params(2).tobytes()


def test_best_constants_minimise_their_loss():
    """No nearby score has a smaller mean loss."""
    labels = np.array([0, 1, 1, 1], dtype=np.float64)
    squared, logistic = SquaredLoss(), LogisticLoss()
    assert squared.best_constant(labels) == 0.75
    assert logistic.best_constant(labels) == pytest.approx(np.log(4 / 2))
    assert np.isfinite(logistic.best_constant(np.ones(5)))


def test_logistic_loss_survives_extreme_scores():
    """No overflow, no NaN: the loss grows linearly, the probability saturates."""
    scores = np.array([-1e4, -1, 0, 1, 1e4], dtype=np.float32)
    loss = LogisticLoss()
    with np.errstate(all="raise", under="ignore"):
        ones = np.ones_like(scores)
        np.testing.assert_allclose(loss.value(scores, ones)[[0, 2]], [1e4, np.log(2)], rtol=1e-6)
        np.testing.assert_allclose(loss.prediction(scores)[[0, 2, 4]], [0, 0.5, 1], atol=1e-7)
        np.testing.assert_allclose(loss.prediction(scores)[1] + loss.prediction(scores)[3], 1)


@pytest.mark.parametrize(
    ("name", "task", "options", "message"),
    [
        ("svm", "binary", {}, "unknown model 'svm'; known: dlrm, fm, lr"),
        ("dlrm", "binary", {"dim": 0}, "dlrm: dim is 0"),
        ("dlrm", "binary", {"rank": 1}, "known: dim, hidden, init_scale, l2"),
        ("lr", "rating", {}, "use model fm"),
        ("lr", "binary", {"rank": 4}, "model lr: unknown option rank; known: l2"),
        ("fm", "rating", {"rnk": 4}, "known: init_scale, l2, rank"),
        ("fm", "rating", {"rank": 0}, "fm: rank is 0"),
        ("fm", "rating", {"rank": 2.5}, "an integer from 1"),
        ("fm", "rating", {"l2": -1.0}, "fm: l2 is -1"),
        ("lr", "binary", {"l2": float("nan")}, "lr: l2 is nan"),
    ],
)
def test_bad_models_and_options_say_what_is_known(name, task, options, message):
    """Every refusal names what was given and what is allowed."""
    with pytest.raises(WorkloadError, match=message):
        build(name, task, **options)


def test_a_model_of_too_many_parameters_is_refused():
    """The limit is on features times (rank + 1)."""
    with pytest.raises(WorkloadError, match=f"at most {MAX_KEYS}"):
        build("fm", "rating", num_features=MAX_KEYS // 9 + 1)
