"""The PyTorch version of the embedding model against the numpy one."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from tests.sparse_examples import make_examples  # noqa: E402
from workloads.datasets import Dataset  # noqa: E402
from workloads.errors import WorkloadError  # noqa: E402
from workloads.models import make_model  # noqa: E402
from workloads.table_part import TablePart, open_tables  # noqa: E402
from workloads.torch_dlrm import Batch, TorchDlrm  # noqa: E402

STARTS = np.array([0, 2, 5, 9])


@pytest.mark.parametrize("task", ["rating", "binary"])
def test_gradient_is_that_of_the_numpy_model(task: str) -> None:
    """Loss, rows and dense part, for bags of no, one and several features."""
    examples = make_examples([3, 0, 5, 1, 2])
    examples.labels[:] = np.arange(5) % 2
    dataset = Dataset("test", task, examples, STARTS)
    model = make_model("dlrm", dataset, examples.labels, {"dim": 3, "hidden": 4})
    params = model.initial_params(3)
    keys = model.batch_keys(examples)
    wanted, loss = model.gradient(examples, keys, params[keys.astype(np.int64)])

    part = TablePart(model, 3)
    net = TorchDlrm(part, 3, task)
    assert net.dense().tobytes() == params[part.num_keys :].tobytes()
    mean = net.loss(Batch.of(examples, STARTS))
    mean.backward()
    assert mean.item() == pytest.approx(loss, rel=1e-5)
    rows = net.rows.weight.grad.coalesce()
    assert part.batch_keys(examples).tolist() == keys[: -model.num_dense].tolist()
    assert (rows.indices()[0] * 3).tolist() == keys[: -model.num_dense : 3].tolist()
    np.testing.assert_allclose(
        rows.values().numpy().ravel(), wanted[: -model.num_dense], rtol=1e-4, atol=1e-6
    )
    dense = [net.hidden.weight.grad.T, net.hidden.bias.grad, net.out.weight.grad, net.out.bias.grad]
    np.testing.assert_allclose(
        np.concatenate([part.numpy().ravel() for part in dense]),
        wanted[-model.num_dense :],
        rtol=1e-4,
        atol=1e-6,
    )


def test_table_part_has_the_gradient_of_its_rows() -> None:
    """What F is chosen from, before PyTorch is asked anything."""
    examples = make_examples([3, 2, 5])
    dataset = Dataset("test", "rating", examples, STARTS)
    model = make_model("dlrm", dataset, examples.labels, {"dim": 3})
    part = TablePart(model, 1)
    keys = part.batch_keys(examples)
    params = part.initial_params(1)[keys.astype(np.int64)]
    gradient, loss = part.gradient(examples, keys, params)
    whole = model.batch_keys(examples)
    wanted, wanted_loss = model.gradient(
        examples, whole, model.initial_params(1)[whole.astype(np.int64)]
    )
    assert gradient.tolist() == wanted[: len(keys)].tolist()
    assert loss == wanted_loss


@pytest.mark.parametrize(("model", "message"), [("fm", "use dlrm"), ("dlrm:l2=1", "penalty")])
def test_models_without_a_counterpart_are_refused(model: str, message: str) -> None:
    """Named before anything is trained."""
    with pytest.raises(WorkloadError, match=message):
        open_tables("movielens", model, seed=1, workers=1, batch_size=8)
