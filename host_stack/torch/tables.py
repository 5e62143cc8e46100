"""The embedding tables of a model as keys of a job.

Tables lie one behind the other: row r of a table of dimension d whose first key is b owns the d
consecutive keys from b + r·d (section 1 of the design).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from host_stack.checkpoint import save_checkpoint
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.layout import MAX_KEYS
from host_stack.placement import Keys
from host_stack.torch.errors import TableError


@dataclass(frozen=True)
class Table:
    """An embedding of a model: `rows` rows of `dim` parameters from key `first` on."""

    name: str
    module: nn.Module
    first: int
    rows: int
    dim: int

    @property
    def end(self) -> int:
        """The key behind the last one."""
        return self.first + self.rows * self.dim

    def keys(self, rows: IntArray) -> Keys:
        """The keys of int64[n] rows: uint64[n·dim], ascending if the rows are."""
        starts = self.first + rows[:, np.newaxis] * self.dim
        return (starts + np.arange(self.dim)).ravel().astype(np.uint64)

    def view(self, parameters: FloatArray) -> FloatArray:
        """Its part of float32[num_keys] parameters, as float32[rows, dim]; no copy."""
        return parameters[self.first : self.end].reshape(self.rows, self.dim)


def find_tables(model: nn.Module) -> dict[str, nn.Module]:
    """The `nn.Embedding` and `nn.EmbeddingBag` of a model with `sparse=True`, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse
    }


def check_unshared(weights: Iterable[tuple[str, nn.Parameter]]) -> None:
    """Raise `TableError` where two names, of tables or of their weights, stand for one weight."""
    names: dict[int, str] = {}
    for name, weight in weights:
        other = names.setdefault(id(weight), name)
        if other != name:
            raise TableError(
                f"{other} and {name} share one weight: a table of a job belongs to one embedding; "
                "look up in that one wherever it is needed, or give each its own weight"
            )


class Tables:
    """The tables of a job, and where their values live.

    The weight of a table on the CPU shares the memory of the worker's parameters, so that an
    UPDATE is in the model as soon as it has been received. That of a table on another device is a
    copy, which `refresh` brings up to date; so are all with `share_memory=False`.
    """

    def __init__(self, modules: Mapping[str, nn.Module], *, share_memory: bool = True) -> None:
        """Lay out modules in their order; see `find_tables`.

        Raises:
            TableError: one is no sparse float32 embedding, has `max_norm` (which changes weights
                outside of the optimiser), is on the meta device or shares its weight with
                another, or there are none.
        """
        self._share_memory = share_memory
        self._tables: dict[str, Table] = {}
        first = 0
        for name, module in modules.items():
            _check(name, module)
            rows, dim = module.weight.shape
            self._tables[name] = table = Table(name, module, first, rows, dim)
            first = table.end
        if not self._tables:
            raise TableError(
                "there are no tables: those of a job are nn.Embedding and nn.EmbeddingBag that "
                "are created with sparse=True"
            )
        check_unshared((table.name, table.module.weight) for table in self)
        if not 0 < first <= MAX_KEYS:
            raise TableError(f"the tables have {first} parameters; allowed are 1 to {MAX_KEYS}")
        self.num_keys = first
        """Parameters of all tables: as many keys the job has."""

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def rows(self, name: str, indices: Any) -> IntArray:
        """Indices of a look-up in a table, of any shape and device, as int64[n].

        Raises:
            TableError: there is no such table, or they are no rows of it.
        """
        if name not in self._tables:
            raise TableError(f"no table {name!r}; there are {', '.join(self._tables)}")
        rows = self._tables[name].rows
        try:
            given = flat_rows(indices)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TableError(f"rows of {name} are whole numbers: {error}") from None
        if given.is_floating_point() or given.is_complex() or given.dtype is torch.bool:
            raise TableError(f"rows of {name} are whole numbers, not {given.dtype}")
        if len(given) and not 0 <= int(given.min()) <= int(given.max()) < rows:
            wrong = given[(given < 0) | (given >= rows)][0]
            raise TableError(f"row {int(wrong)} of {name}: it has rows 0 to {rows - 1}")
        found: IntArray = given.to(torch.int64).numpy()
        return found

    def parameters(self) -> FloatArray:
        """The values of all tables as they are in the model: float32[num_keys], a copy."""
        values = np.empty(self.num_keys, np.float32)
        for table in self:
            table.view(values)[:] = table.module.weight.detach().cpu().numpy()
        return values

    def bind(self, parameters: FloatArray) -> None:
        """Let the model take its values from float32[num_keys] `parameters` from now on.

        The values that the model has are not kept. Raises `TableError` if the size does not fit.
        """
        if parameters.shape != (self.num_keys,) or parameters.dtype != np.float32:
            raise TableError(
                f"the tables have {self.num_keys} parameters, the job {parameters.shape} of "
                f"{parameters.dtype}: make the job with num_keys = {self.num_keys}"
            )
        self._parameters = parameters
        for table in self:
            if self._shares(table):
                table.module.weight.data = torch.from_numpy(table.view(parameters))

    def refresh(self, rows: Mapping[str, IntArray]) -> None:
        """Copy the values of int64[n] rows of tables into weights that do not share memory."""
        with torch.no_grad():
            for name, some in rows.items():
                table = self[name]
                if self._shares(table) or not len(some):
                    continue
                weight = table.module.weight
                values = torch.from_numpy(table.view(self._parameters)[some])
                at = torch.from_numpy(some).to(weight.device)
                weight.index_copy_(0, at, values.to(weight.device))

    def take_gradients(self, scale: float = 1.0) -> tuple[Keys, FloatArray]:
        """The gradients of all tables, times `scale`; they are cleared.

        Gradients of several backward passes have been summed by then (gradient accumulation).

        Returns:
            uint64[n] sorted and unique keys, float32[n].

        Raises:
            TableError: a gradient is not sparse, or not float32.
        """
        keys, values = [np.zeros(0, np.uint64)], [np.zeros(0, np.float32)]
        for table in self:
            gradient = table.module.weight.grad
            if gradient is None:
                continue
            table.module.weight.grad = None
            if not gradient.is_sparse:
                raise TableError(
                    f"the gradient of {table.name} is dense: its weight may only be looked up, by "
                    "an embedding with sparse=True"
                )
            gradient = gradient.coalesce()
            keys.append(table.keys(gradient.indices()[0].cpu().numpy()))
            values.append((gradient.values() * scale).cpu().numpy().ravel())
        return np.concatenate(keys), np.concatenate(values)

    def rows_of(self, keys: Keys) -> dict[str, NDArray[np.int64]]:
        """The rows, by table, that own any of uint64[n] keys: int64[m] each, ascending."""
        at = np.unique(keys).astype(np.int64)
        return {
            table.name: np.unique((at[_within(at, table)] - table.first) // table.dim)
            for table in self
        }

    def keys_of(self, rows: Mapping[str, IntArray]) -> Keys:
        """The keys of int64[n] distinct rows of tables: uint64[m], sorted."""
        parts = [table.keys(np.sort(rows[table.name])) for table in self if table.name in rows]
        return np.concatenate([np.zeros(0, np.uint64), *parts])

    def save(self, path: Path, workers: int) -> None:
        """Write the values of all tables as the checkpoint that a server begins with.

        `workers` are those of the job; `TableError` for none.
        """
        if workers < 1:
            raise TableError(f"{workers} workers: a job has one at least")
        save_checkpoint(path, 0, [0] * workers, self.parameters(), {})

    def _shares(self, table: Table) -> bool:
        return self._share_memory and table.module.weight.device.type == "cpu"


def flat_rows(indices: Any) -> torch.Tensor:
    """Indices of a look-up, of any shape and device, as they are: [n] on the CPU."""
    return torch.as_tensor(indices).detach().reshape(-1).cpu()


def _within(keys: IntArray, table: Table) -> slice:
    low, high = np.searchsorted(keys, [table.first, table.end])
    return slice(int(low), int(high))


def _check(name: str, module: nn.Module) -> None:
    if not isinstance(module, nn.Embedding | nn.EmbeddingBag):
        kind = type(module).__name__
        raise TableError(f"{name} is {kind}; allowed are nn.Embedding and nn.EmbeddingBag")
    if not module.sparse:
        raise TableError(f"{name} makes dense gradients: create it with sparse=True")
    if module.max_norm is not None:
        raise TableError(f"{name} has max_norm, which the server does not know: leave it out")
    if module.weight.is_meta:
        raise TableError(
            f"{name} is on the meta device, without values: call model.to_empty(device=…) first"
        )
    if module.weight.dtype != torch.float32:
        raise TableError(f"{name} holds {module.weight.dtype}; the switch adds float32 only")
