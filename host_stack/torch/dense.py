"""The dense part of a model: gradients by one all-reduce of `torch.distributed` for each dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from host_stack.torch.tables import find_tables


def dense_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The trainable parameters that belong to no sparse embedding."""
    sparse = {id(module.weight) for module in find_tables(model).values()}
    return [p for p in model.parameters() if p.requires_grad and id(p) not in sparse]


class DenseReducer:
    """Adds the gradients of dense parameters over all processes, in place.

    Gradients travel as one array for each dtype. They are gathered on the CPU, where gloo reduces
    and where each process gets the same bits; parameters may be on any device, and on several.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], group: Any = None) -> None:
        """Of the process group `group` (default: that of all processes)."""
        self._parameters = list(parameters)
        self._group = group
        dtypes = dict.fromkeys(p.dtype for p in self._parameters)
        self._buckets = [[p for p in self._parameters if p.dtype == dtype] for dtype in dtypes]

    def broadcast(self) -> None:
        """Give all processes the parameters of rank 0."""
        with torch.no_grad():
            for bucket in self._buckets:
                flat = _flatten(bucket)
                dist.broadcast(flat, 0, group=self._group)
                for parameter, part in _parts(bucket, flat):
                    parameter.copy_(part)

    def reduce(self, scale: float) -> None:
        """Replace each gradient by `scale` times its sum over processes; none counts as zeros."""
        with torch.no_grad():
            for bucket in self._buckets:
                for parameter in bucket:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                flat = _flatten([parameter.grad for parameter in bucket])
                dist.all_reduce(flat, group=self._group)
                flat *= scale
                for parameter, part in _parts(bucket, flat):
                    parameter.grad.copy_(part)


def _flatten(tensors: Iterable[Any]) -> Any:
    """All elements of tensors of one dtype as one new array on the CPU."""
    return torch.cat([tensor.detach().reshape(-1).cpu() for tensor in tensors]).clone()


def _parts(bucket: list[nn.Parameter], flat: Any) -> Iterable[tuple[nn.Parameter, Any]]:
    """Each parameter with its part of the array, in its shape."""
    sizes = [parameter.numel() for parameter in bucket]
    for parameter, part in zip(bucket, torch.split(flat, sizes), strict=True):
        yield parameter, part.view_as(parameter)
