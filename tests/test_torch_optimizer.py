"""The optimiser in a job in memory: rows, steps, states, moves and refusals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from host_stack.commit import Commit  # noqa: E402
from host_stack.connect import worker_node  # noqa: E402
from host_stack.errors import BadInput  # noqa: E402
from host_stack.torch import (  # noqa: E402
    LibraOptimizer,
    Place,
    Rewound,
    TableError,
    dense_parameters,
    join_group,
)
from host_stack.torch.environment import interface_of  # noqa: E402
from host_stack.worker import Worker  # noqa: E402
from tests.job_in_memory import SERVER, MemoryJob, make_job  # noqa: E402
from tests.memory_network import Faults  # noqa: E402
from tests.test_job import F, direct  # noqa: E402

ROWS, DIM = 30, 4
NUM_KEYS = ROWS * DIM
STEPS = 5


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process group of this process alone."""
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Net(nn.Module):
    """A table and a line."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.rows = nn.Embedding(ROWS, DIM, sparse=True)
        self.out = nn.Linear(DIM, 1)

    def forward(self, rows: Any) -> Any:
        """The mean score of rows [n]."""
        return self.out(self.rows(rows)).square().mean()


def indices(step: int) -> Any:
    """What a step looks up, some rows twice."""
    return torch.from_numpy(np.random.default_rng([3, step]).zipf(1.4, (3, 4)) % ROWS)


Train = Callable[[LibraOptimizer, Net], None]


class TorchJob(MemoryJob):
    """A job of one worker that trains with PyTorch; the server's model is the sum of gradients."""

    def __init__(self, train: Train, hot: int, faults: Faults | None = None, **options: Any):
        nothing = np.zeros(0, np.uint64), np.zeros(0, np.float32)
        super().__init__([[nothing]] * STEPS, NUM_KEYS, hot, direct(1, faults), F, **options)
        self._train_torch = train
        self.share_memory = True
        self.net = Net()

    def _work(self, rank: int) -> bool:
        address = self.job.workers[rank]
        node = worker_node(self.job, address)
        worker = Worker(self.job, rank, self.network.transport(address), node)
        node.start()
        dense = torch.optim.SGD(dense_parameters(self.net), 0.1)
        optimizer = LibraOptimizer(self.net, worker, dense, share_memory=self.share_memory)
        self._train_torch(optimizer, self.net)
        node.finalize()
        return True


def train(optimizer: LibraOptimizer, net: Net, first: int | None = None) -> None:
    """Train to the end."""
    for step in range(optimizer.start() if first is None else first, STEPS):
        optimizer.zero_grad()
        net(indices(step)).backward()
        optimizer.step()


def expected() -> tuple[np.ndarray, Any]:
    """Rows and line after all steps, by plain PyTorch; the server adds gradients (rate -1)."""
    net = Net()
    with torch.no_grad():
        net.rows.weight.zero_()
    dense = torch.optim.SGD(dense_parameters(net), 0.1)
    rows = torch.optim.SGD([net.rows.weight], 1.0, maximize=True)
    for step in range(STEPS):
        net.zero_grad()
        net(indices(step)).backward()
        rows.step()
        dense.step()
    return net.rows.weight.detach().numpy(), net.out.state_dict()


@pytest.mark.parametrize("share_memory", [True, False])
@pytest.mark.parametrize("hot", [0, 50, NUM_KEYS])
def test_steps_are_those_of_plain_pytorch(hot: int, share_memory: bool) -> None:
    """Whichever keys are hot, rows in part too, and wherever the weights live."""
    job = TorchJob(train, hot)
    job.share_memory = share_memory
    job.run()
    rows, line = expected()
    np.testing.assert_allclose(job.outcome.parameters.reshape(ROWS, DIM), rows, atol=1e-5)
    for name, values in line.items():
        np.testing.assert_allclose(job.net.out.state_dict()[name], values, atol=1e-6)


def test_prefetched_rows_change_nothing() -> None:
    """The next batch's rows come with the step, and faults of the network do no harm."""

    def ahead(optimizer: LibraOptimizer, net: Net) -> None:
        for step in range(optimizer.start(), STEPS):
            optimizer.zero_grad()
            net(indices(step)).backward()
            optimizer.prefetch({"rows": indices(step + 1)})
            optimizer.step()

    job = TorchJob(ahead, 40, Faults(loss=0.05, duplication=0.05, reordering=0.05, seed=3))
    job.run()
    np.testing.assert_allclose(job.outcome.parameters.reshape(ROWS, DIM), expected()[0], atol=1e-5)


def test_another_incarnation_between_steps_is_taken_up() -> None:
    """Other keys become hot in mid-training; no row is lost or stale."""
    job = TorchJob(train, 40)

    def move(commit: Commit) -> None:
        if commit.round == 1:
            job.controller.move(commit.round + 1)

    job.after_commit(move)
    job.run()
    np.testing.assert_allclose(job.outcome.parameters.reshape(ROWS, DIM), expected()[0], atol=1e-5)


def test_states_are_of_their_step() -> None:
    """A state is taken up at its step only, and whole tables can be fetched."""
    seen: dict[str, Any] = {}

    def stop_and_go(optimizer: LibraOptimizer, net: Net) -> None:
        first = optimizer.start()
        early = optimizer.state_dict()
        optimizer.load_state_dict(early)
        net(indices(first)).backward()
        optimizer.step()
        state = optimizer.state_dict()
        assert state["step"] == optimizer.step_number == 1
        optimizer.load_state_dict(state)
        with pytest.raises(BadInput, match="saved at step 0, the job is at 1"):
            optimizer.load_state_dict(early)
        with pytest.raises(BadInput, match="of another optimiser"):
            optimizer.load_state_dict({"step": 1})
        with pytest.raises(BadInput, match="saved of"):
            optimizer.load_state_dict({**state, "shapes": [[2, 4], [1]]})
        with pytest.raises(BadInput, match="refuses its state"):
            optimizer.load_state_dict({**state, "dense": {**state["dense"], "param_groups": []}})
        with pytest.raises(TableError, match="rows 30 to 30; it has 0 to 29"):
            net(torch.tensor([ROWS]))
        train(optimizer, net, 1)
        seen["tables"] = optimizer.tables

    job = TorchJob(stop_and_go, 40)
    job.run()
    assert seen["tables"].num_keys == NUM_KEYS


def test_a_server_that_lost_steps_is_named() -> None:
    """It comes back at its checkpoint, behind which this process has trained."""
    seen: list[int] = []

    def train_again(optimizer: LibraOptimizer, net: Net) -> None:
        step = optimizer.start()
        while step < STEPS:
            try:
                optimizer.zero_grad()
                net(indices(step)).backward()
                optimizer.step()
                step += 1
            except Rewound as rewound:
                seen.append(rewound.step)
                step = optimizer.start()

    job = TorchJob(train_again, 40, checkpoint_every=2)

    def crash(commit: Commit) -> None:
        if commit.round == 2 and not seen and not job.outcome.crashes[SERVER]:
            job.crash(SERVER, 1)

    job.after_commit(crash)
    job.run()
    assert job.outcome.crashes[SERVER] == 1
    assert seen == [2]


@pytest.mark.parametrize("given", [None, "too few", "table"])
def test_a_dense_optimiser_has_the_dense_parameters(given: str | None) -> None:
    """No more and no fewer."""
    net = Net()
    some = {None: [], "too few": [net.out.bias], "table": list(net.parameters())}[given]
    dense = torch.optim.SGD(some, 0.1) if some else None
    job = make_job(1, NUM_KEYS, F, 1)
    node = worker_node(job, "127.0.1.2")
    with pytest.raises(BadInput, match="dense_parameters"):
        LibraOptimizer(net, Worker(job, 0, None, node), dense)
    node.close()


def test_a_look_up_before_the_start_is_refused() -> None:
    """What the rows are is not known before the job is joined."""

    def look_first(optimizer: LibraOptimizer, net: Net) -> None:
        with pytest.raises(BadInput, match=r"call start\(\) first"):
            net(indices(0))
        train(optimizer, net)

    TorchJob(look_first, 40).run()


def test_a_model_without_values_is_refused() -> None:
    """Its dense parameters are on the meta device."""
    net = Net()
    net.out.to("meta")
    job = make_job(1, NUM_KEYS, F, 1)
    node = worker_node(job, "127.0.1.2")
    dense = torch.optim.SGD(dense_parameters(net), 0.1)
    with pytest.raises(BadInput, match="to_empty"):
        LibraOptimizer(net, Worker(job, 0, None, node), dense)
    node.close()


ENVIRONMENT = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": ""}, "RANK not set: start the program with torchrun"),
        ({"WORLD_SIZE": "two"}, "whole numbers"),
        ({"RANK": "2"}, "outside of 0 to WORLD_SIZE"),
    ],
)
def test_an_environment_that_is_not_torchruns_is_refused(
    changes: Mapping[str, str], message: str
) -> None:
    """With what is missing or wrong."""
    assert Place.from_env(ENVIRONMENT) == Place(1, 2)
    with pytest.raises(BadInput, match=message):
        Place.from_env({**ENVIRONMENT, **changes})


def test_as_many_processes_as_workers_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both numbers are named before anybody is waited for."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match="2 processes, the job has 3 workers"):
        join_group(make_job(3, NUM_KEYS, F, 1))


def test_interfaces_are_found_by_address() -> None:
    """Gloo is told by name."""
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None


def test_the_package_says_what_is_missing(tmp_path: Path) -> None:
    """Where PyTorch is not installed, and nothing else of the project needs it."""
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import controller.cli, workloads.train_worker, host_stack.server\n"
        "assert 'torch' not in sys.modules\n"
        "from host_stack.errors import LibraError\n"
        "try:\n    import host_stack.torch\n"
        "except LibraError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'libra-ina[torch]'" in done.stdout


def test_calls_out_of_order_are_refused() -> None:
    """At once: the server would let them wait until something ends."""

    def train(optimizer: LibraOptimizer, net: Net) -> None:
        for early in (optimizer.step, optimizer.fetch_all, optimizer.end):
            with pytest.raises(BadInput, match="call start"):
                early()
        for step in range(optimizer.start(), STEPS):
            net(indices(step)).backward()
            optimizer.step()
        optimizer.end()
        with pytest.raises(BadInput, match="has ended"):
            optimizer.step()

    job = TorchJob(train, hot=NUM_KEYS // 2)
    job.rounds = None
    job.run()


class Tied(Net):
    """Its table's weight is that of a line too, or its table has two names."""

    def __init__(self, *, line: bool) -> None:
        super().__init__()
        if line:
            self.out = nn.Linear(DIM, ROWS, bias=False)
            self.out.weight = self.rows.weight
        else:
            self.again = self.rows


def optimizer_of(net: nn.Module) -> LibraOptimizer:
    """That of a job with as many keys as the tables of `Net`; it is not joined."""
    job = make_job(1, NUM_KEYS, F, 9)
    worker = Worker(job, 0, None, worker_node(job, job.workers[0]))  # type: ignore[arg-type]
    dense = dense_parameters(net)
    return LibraOptimizer(net, worker, torch.optim.SGD(dense, 0.1) if dense else None)


def test_a_weight_with_two_uses_is_refused() -> None:
    """Both are named before anything is trained; a table that two names mean is one table."""
    with pytest.raises(TableError, match=r"rows\.weight and out\.weight share one weight"):
        optimizer_of(Tied(line=True))
    assert [table.name for table in optimizer_of(Tied(line=False)).tables] == ["rows"]


def test_a_model_without_sparse_embeddings_is_refused() -> None:
    """With what to do about it."""
    net = Net()
    net.rows = nn.Embedding(ROWS, DIM)
    with pytest.raises(TableError, match="created with sparse=True"):
        optimizer_of(net)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_passes_as_in_pytorch(bad: float) -> None:
    """NaN and Inf escape the switch to the server: their rows alone become so, hot or cold."""
    rows = torch.tensor([1, ROWS - 1])  # one of them is hot

    def train(optimizer: LibraOptimizer, net: Net) -> None:
        for _ in range(optimizer.start(), STEPS):
            (net.rows(rows) * torch.tensor([[bad], [bad]])).sum().backward()
            optimizer.step()

    job = TorchJob(train, hot=NUM_KEYS // 2)
    job.run()
    found = job.outcome.parameters.reshape(ROWS, DIM)
    np.testing.assert_array_equal(found[rows.numpy()], np.full((2, DIM), bad, np.float32))
    assert np.isfinite(np.delete(found, rows.numpy(), axis=0)).all()
    assert job.outcome.counters["escaped_gradients"] == 2 * DIM * STEPS
