"""An optimiser for models with sparse embeddings: one step of all workers of a job together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from host_stack.errors import BadInput
from host_stack.sharded import JobWorker
from host_stack.stopwatch import RoundTimes
from host_stack.torch.dense import DenseReducer, dense_parameters
from host_stack.torch.errors import TableError
from host_stack.torch.exchange import SparseExchange
from host_stack.torch.tables import Tables, check_unshared, find_tables, flat_rows

_STATE = {"step", "dense", "shapes"}


class LibraOptimizer:
    """Steps a model in all processes at once, as if one process had the batches of all of them.

    Rows of sparse embeddings are updated by the server's optimiser: gradients of hot rows are
    summed in the switch, those of cold rows by the server. All other parameters are updated by an
    optimiser of PyTorch in each process, from gradients summed by all-reduce; it may have a
    learning rate scheduler as ever. Gradients are averaged over processes: where each has the mean
    loss of a batch of the same size, the step is that of the mean loss over all of them.

    The rows that a batch needs are fetched when the model looks them up. The first look-up of a
    step waits for the server; `prefetch` spares that where the next batch is known.

    Several backward passes before a `step` accumulate, for tables as for other parameters.
    """

    def __init__(
        self,
        model: nn.Module,
        worker: JobWorker,
        dense: torch.optim.Optimizer | None,
        *,
        group: Any = None,
        share_memory: bool = True,
    ) -> None:
        """Of a model whose tables are the job's keys, in the order of `find_tables`.

        Args:
            model: its tables take their values from the job from here on.
            worker: of this process, not started.
            dense: steps the parameters that are in no table; None if there are none.
            group: process group of the workers; default: all processes.
            share_memory: as `Tables`.

        Raises:
            BadInput: `dense` has not exactly the parameters that are in no table.
            TableError: there is no table, or one that a job cannot take, as one whose weight is
                used by another module too.
        """
        self.tables = Tables(find_tables(model), share_memory=share_memory)
        """Of the model."""
        _check_apart(model, self.tables)
        parameters = dense_parameters(model)
        _check_dense(parameters, dense)
        self.times = RoundTimes()
        """Seconds of the last step's phases, and how its keys travelled."""
        self._dense = dense
        self._reducer = DenseReducer(parameters, group)
        self._scale = 1.0 / dist.get_world_size(group)
        self._exchange = SparseExchange(worker, self.tables)
        self._next: Mapping[str, Any] | None = None
        self._closed = "the job is not joined yet: call start() first"
        for table in self.tables:
            table.module.register_forward_pre_hook(self._look_up(table.name), with_kwargs=True)

    @property
    def step_number(self) -> int:
        """The next step, from 0; all processes are at the same one."""
        return self._exchange.step

    def start(self) -> int:
        """Join the job, and take the dense parameters of rank 0; return the step to begin with.

        In the middle of a training, load the state that was saved at that step.

        Raises:
            PushFailed: the server does not answer.
        """
        step = self._exchange.start()
        self._reducer.broadcast()
        self._closed = ""
        return step

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for table in self.tables:
            table.module.weight.grad = None
        if self._dense is not None:
            self._dense.zero_grad()

    def prefetch(self, indices: Mapping[str, Any]) -> None:
        """Say what the next batch looks up: for each table's name, any array of its rows.

        The next `step` brings these rows along. Others are still fetched when looked up.

        Raises:
            TableError: there is no such table, or one has no such rows.
        """
        if not isinstance(indices, Mapping):
            raise TableError("tell of each table its rows: a mapping from names to rows")
        self._next = {name: self.tables.rows(name, given) for name, given in indices.items()}

    def step(self) -> None:
        """Update all parameters from the gradients of all processes, and clear those of tables.

        Every process must call it, also with no gradient at all.

        Raises:
            BadInput: before `start`, or after `end`.
            Rewound: the job goes on at an earlier step.
            PushFailed: nothing moves any more, and nobody says why.
        """
        self._check_open()
        wanted, self._next = self._next, None
        self._reducer.reduce(self._scale)
        self.times = self._exchange.push(self._scale, wanted)
        if self._dense is not None:
            self._dense.step()

    def fetch_all(self) -> None:
        """Make all rows of the model current: call it before `model.state_dict()`.

        Raises:
            BadInput, Rewound, PushFailed: as `step`.
        """
        self._check_open()
        self._exchange.fetch_all()

    def end(self) -> None:
        """Say that no step follows, and wait until no process has one left; the server ends then.

        Raises:
            BadInput: no step was made, or as `step`.
            Rewound, PushFailed: as `step`.
        """
        self._check_open()
        self._exchange.end()
        self._closed = "the training has ended: end() was called"

    def _check_open(self) -> None:
        if self._closed:
            raise BadInput(self._closed)

    def state_dict(self) -> dict[str, Any]:
        """The step and the state of the dense optimiser.

        The state of the tables' optimiser is the server's, in its checkpoints.
        """
        dense = None if self._dense is None else self._dense.state_dict()
        return {"step": self._exchange.step, "dense": dense, "shapes": self._shapes()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a state, after `start`; nothing is changed where one is refused.

        Raises:
            BadInput: it is none of `state_dict`, of other dense parameters, or not of the step at
                which the job is.
        """
        self._check_state(state)
        if state["step"] != self._exchange.step:
            raise BadInput(
                f"the state was saved at step {state['step']}, the job is at "
                f"{self._exchange.step}: load the state of that step, or start the server from a "
                "checkpoint of the state's step"
            )
        if self._dense is not None:
            try:
                self._dense.load_state_dict(state["dense"])
            except (KeyError, TypeError, ValueError) as error:
                raise BadInput(f"the dense optimiser refuses its state: {error}") from error

    def _check_state(self, state: Mapping[str, Any]) -> None:
        """Refuse what is no state of this optimiser."""
        if set(state) != _STATE or (state["dense"] is None) != (self._dense is None):
            raise BadInput(
                f"a state with {', '.join(map(str, state))}: this is of another optimiser"
            )
        if state["shapes"] != (shapes := self._shapes()):
            raise BadInput(
                f"the state is of dense parameters of shapes {state['shapes']!s:.200}, the model "
                f"has {shapes!s:.200}: load the state into the model that it was saved of"
            )

    def _shapes(self) -> list[list[int]]:
        """The shapes of the dense parameters, in the order of their optimiser."""
        groups = [] if self._dense is None else self._dense.param_groups
        return [list(parameter.shape) for group in groups for parameter in group["params"]]

    def _look_up(self, name: str) -> Any:
        """What runs before the forward pass of a table: its rows are made current."""

        def before(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            del module
            if not self._exchange.has_started:
                self._check_open()
            rows = flat_rows(given[0] if given else named["input"])
            self._exchange.require({name: rows.numpy()})

        return before


def _check_apart(model: nn.Module, tables: Tables) -> None:
    """Refuse a table's weight that is another module's too: it would have a dense gradient."""
    own = {id(table.module.weight) for table in tables}
    check_unshared(
        (f"{where}.{name}", weight)
        for where, module in model.named_modules()
        for name, weight in module.named_parameters(recurse=False)
        if id(weight) in own
    )


def _check_dense(parameters: list[nn.Parameter], dense: torch.optim.Optimizer | None) -> None:
    if any(parameter.is_meta for parameter in parameters):
        raise BadInput(
            "the dense parameters are on the meta device, without values: give them some with "
            "model.to_empty(device=…) and what sets them, before the optimisers are made"
        )
    groups = [] if dense is None else dense.param_groups
    given = {id(parameter) for group in groups for parameter in group["params"]}
    wanted = {id(parameter) for parameter in parameters}
    if given != wanted:
        raise BadInput(
            f"the dense optimiser has {len(given)} parameters, of which {len(given & wanted)} are "
            f"among the {len(wanted)} that are in no sparse embedding; give it all of "
            "dense_parameters(model) and no others"
        )
