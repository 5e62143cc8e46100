"""Embedding tables as keys: layout, shared memory, gradients, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from torch import nn  # noqa: E402

from host_stack.checkpoint import load_checkpoint  # noqa: E402
from host_stack.torch import TableError, Tables, find_tables  # noqa: E402


def modules() -> dict[str, nn.Module]:
    """A table of 4 rows of 2, and one of 3 rows of 3."""
    torch.manual_seed(1)
    return {
        "a": nn.Embedding(4, 2, sparse=True),
        "b": nn.EmbeddingBag(3, 3, mode="sum", sparse=True),
    }


def test_rows_own_consecutive_keys() -> None:
    """Tables lie one behind the other, and keys lead back to rows."""
    tables = Tables(modules())
    assert tables.num_keys == 17
    rows = {"b": np.array([2, 0]), "a": np.array([1])}
    keys = tables.keys_of(rows)
    assert keys.tolist() == [2, 3, 8, 9, 10, 14, 15, 16]
    assert keys.dtype == np.uint64
    found = tables.rows_of(keys)
    assert {name: some.tolist() for name, some in found.items()} == {"a": [1], "b": [0, 2]}


def test_only_sparse_embeddings_are_found() -> None:
    """By name, in the order of the model."""
    model = nn.ModuleDict({**modules(), "dense": nn.Embedding(2, 2), "linear": nn.Linear(2, 1)})
    assert list(find_tables(model)) == ["a", "b"]


@pytest.mark.parametrize("share_memory", [True, False])
def test_values_come_from_the_job(share_memory: bool) -> None:
    """In shared memory at once, elsewhere when refreshed."""
    given = modules()
    tables = Tables(given, share_memory=share_memory)
    before = tables.parameters()
    assert before[:8].tolist() == given["a"].weight.detach().ravel().tolist()
    parameters = np.arange(17, dtype=np.float32)
    tables.bind(parameters)
    rows = {"a": np.array([1, 3]), "b": np.zeros(0, np.int64)}
    tables.refresh(rows)
    weight = given["a"].weight.detach().numpy()
    assert weight[[1, 3]].tolist() == [[2, 3], [6, 7]]
    parameters[0] = 99
    assert (weight[0, 0] == 99) == share_memory
    assert (given["b"].weight.detach().numpy()[0, 0] == 8) == share_memory


def test_gradients_of_backward_passes_are_summed_once() -> None:
    """Keys are sorted and unique, rows looked up twice count twice, and all is cleared."""
    given = modules()
    tables = Tables(given)
    for _ in range(2):
        given["a"](torch.tensor([[3, 1], [3, 3]])).sum().backward()
    given["b"](torch.tensor([[0, 2]])).sum().backward()
    keys, gradients = tables.take_gradients(0.5)
    assert keys.tolist() == [2, 3, 6, 7, 8, 9, 10, 14, 15, 16]
    assert gradients.tolist() == [1, 1, 3, 3] + [0.5] * 6
    assert gradients.dtype == np.float32
    assert all(module.weight.grad is None for module in given.values())
    keys, gradients = tables.take_gradients()
    assert not len(keys) and not len(gradients)


def test_padding_has_no_gradient() -> None:
    """The row that stands for nothing is not pushed."""
    table = nn.Embedding(4, 2, sparse=True, padding_idx=0)
    tables = Tables({"a": table})
    table(torch.tensor([0, 2])).sum().backward()
    keys, _ = tables.take_gradients()
    assert keys.tolist() in ([4, 5], [0, 1, 4, 5])


def test_tables_begin_a_server(tmp_path: Any) -> None:
    """The checkpoint of round 0 has the model's values."""
    tables = Tables(modules())
    tables.save(tmp_path / "parameters.npz", 3)
    rounds, steps, parameters, state = load_checkpoint(tmp_path / "parameters.npz")
    assert (rounds, steps, state) == (0, [0, 0, 0], {})
    assert parameters.tobytes() == tables.parameters().tobytes()


def shared() -> dict[str, nn.Module]:
    """Two embeddings of one weight."""
    first, second = nn.Embedding(4, 2, sparse=True), nn.Embedding(4, 2, sparse=True)
    second.weight = first.weight
    return {"a": first, "b": second}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no tables: .* created with sparse=True"),
        ({"a": nn.Linear(2, 1)}, "allowed are nn.Embedding"),
        ({"a": nn.Embedding(2, 2)}, "sparse=True"),
        ({"a": nn.Embedding(2, 2, sparse=True, max_norm=1.0)}, "max_norm"),
        ({"a": nn.Embedding(2, 2, sparse=True, device="meta")}, "to_empty"),
        ({"a": nn.Embedding(2, 2, sparse=True, dtype=torch.float64)}, "float32 only"),
        (shared(), "a and b share one weight"),
    ],
)
def test_what_no_switch_can_add_is_refused(given: dict[str, nn.Module], message: str) -> None:
    """Named with the table, and with what to do."""
    with pytest.raises(TableError, match=message):
        Tables(given)


def test_a_job_of_another_size_is_refused() -> None:
    """Both sizes are named."""
    with pytest.raises(TableError, match="17 parameters, the job"):
        Tables(modules()).bind(np.zeros(16, np.float32))


def test_a_dense_gradient_is_refused() -> None:
    """As somebody made who set it by hand."""
    given = modules()
    given["a"].weight.grad = torch.zeros(4, 2)
    with pytest.raises(TableError, match="a is dense: its weight may only be looked up"):
        Tables(given).take_gradients()


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("nobody", [0], "no table 'nobody'; there are user"),
        ("user", [0, 4], "row 4 of user: it has rows 0 to 3"),
        ("user", [-1], "row -1 of user"),
        ("user", [1.5], "whole numbers, not torch.float32"),
        ("user", ["one"], "whole numbers"),
    ],
)
def test_rows_that_are_none_are_refused(name: str, rows: list[Any], words: str) -> None:
    """By name, before anything is asked of the server."""
    tables = Tables({"user": nn.Embedding(4, 2, sparse=True)})
    assert tables.rows("user", [[3, 0], [1, 1]]).tolist() == [3, 0, 1, 1]
    with pytest.raises(TableError, match=words):
        tables.rows(name, rows)


def test_values_are_saved_for_the_workers_of_a_job(tmp_path: Path) -> None:
    """A checkpoint of no workers would fit no job."""
    tables = Tables({"a": nn.Embedding(4, 2, sparse=True)})
    with pytest.raises(TableError, match="one at least"):
        tables.save(tmp_path / "parameters.npz", 0)
    assert not list(tmp_path.iterdir())
