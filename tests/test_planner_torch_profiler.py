"""The PyTorch profiler; skipped where PyTorch is not installed."""

import sys
from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.profile_log import read_log, write_log
from planner.simulation import Job, scaling_factor
from planner.torch_profiler import profile_module


def test_without_pytorch_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    """It is optional."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PlanError, match="pip install torch"):
        profile_module(None, None, name="none")


def test_gradients_come_last_layer_first_and_are_written(tmp_path: Path):
    """A small network: sizes, order, times that add up, and the way through a log."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.Linear(16, 4)
    )
    batch = torch.randn(8, 64)
    profile = profile_module(net, lambda: net(batch).square().mean(), name="net", iterations=3)
    layers = [{4 * 16 * 4, 4 * 4}, {4 * 32 * 16, 4 * 16}, {4 * 64 * 32, 4 * 32}]
    sizes = profile.size_bytes.tolist()
    assert [set(sizes[i : i + 2]) for i in (0, 2, 4)] == layers
    assert 0 < profile.backward_s <= profile.iteration.seconds
    assert all(not parameter._post_accumulate_grad_hooks for parameter in net.parameters())
    path = tmp_path / "net.log"
    write_log(path, profile)
    job = Job(read_log(path))
    assert 0 < float(scaling_factor(job, job.conditions(1e9, 8))) <= 1


def test_sparse_gradients_have_the_rows_that_were_looked_up():
    """An embedding of 1,000 rows of which a batch touches four."""
    torch = pytest.importorskip("torch")
    table = torch.nn.Embedding(1000, 8, sparse=True)
    rows = torch.tensor([1, 2, 3, 999])
    profile = profile_module(table, lambda: table(rows).sum(), name="table", iterations=1)
    assert profile.size_bytes.tolist() == [4 * 8 * 4]


@pytest.mark.parametrize("returned", [None, 3.0])
def test_a_step_without_a_loss_is_refused(returned: object):
    """A number, nothing, or a tensor that nothing was tracked for."""
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(4, 1)
    with pytest.raises(PlanError, match=r"what step\(\) returns is no loss"):
        profile_module(net, lambda: returned, name="net", iterations=1)
    with torch.no_grad(), pytest.raises(PlanError, match="is no loss"):
        profile_module(net, lambda: net(torch.ones(2, 4)).sum(), name="net", iterations=1)
    assert all(not parameter._post_accumulate_grad_hooks for parameter in net.parameters())


def test_frozen_and_unused_parameters_are_left_out():
    """What gets no gradient is not sent; without any there is no profile."""
    torch = pytest.importorskip("torch")
    used, unused = torch.nn.Linear(4, 1, bias=False), torch.nn.Linear(4, 1)
    net = torch.nn.ModuleList([used, unused])
    batch = torch.ones(2, 4)
    profile = profile_module(net, lambda: used(batch).sum(), name="net", iterations=1)
    assert profile.size_bytes.tolist() == [16]
    used.weight.requires_grad = False
    net[1].weight.requires_grad = True
    with pytest.raises(PlanError, match="no parameter got a gradient"):
        profile_module(net, lambda: batch.clone().requires_grad_().sum(), name="net", iterations=1)
