"""Profiles of any PyTorch module: when the gradients of a backward pass become ready.

PyTorch is optional, and imported here only: `pip install torch`. Hooks on the parameters tell when
each gradient has been accumulated, in the order in which a framework would send them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.errors import PlanError
from planner.profile import Iteration, Profile

if TYPE_CHECKING:
    import torch

WARM_UP = 2
"""Iterations that are not counted: allocations and choices of kernels happen in them."""


def profile_module(
    module: torch.nn.Module, step: Callable[[], torch.Tensor], *, name: str, iterations: int = 10
) -> Profile:
    """Measure iterations of a module on one device.

    Args:
        module: its parameters that require gradients are watched; one whose gradient never comes
            is left out.
        step: a forward pass on a batch, as the caller trains it; returns the loss.
        name: of the profile.
        iterations: that are counted.

    Returns:
        The mean waits between gradients, in the order of the first iteration, and the mean time
        of an iteration: forward and backward pass, without the optimiser.

    Raises:
        PlanError: PyTorch is missing, `step` returns no loss, no parameter has a gradient, or
            gradients come in another number from one iteration to the next.
    """
    if iterations < 1:
        raise PlanError(f"{iterations} iterations: need 1 or more")
    torch = _import_torch()
    device = _device_of(module, torch)
    watch = _Watch(module, lambda: _synchronised_s(torch, device))
    passes, total_s = [], 0.0
    try:
        for iteration in range(WARM_UP + iterations):
            module.zero_grad(set_to_none=True)
            begin_s = _synchronised_s(torch, device)
            loss = step()
            if not getattr(loss, "requires_grad", False):
                raise PlanError(f"{name}: what step() returns is no loss of any parameter")
            watch.begin()
            loss.backward()
            end_s = _synchronised_s(torch, device)
            if iteration >= WARM_UP:
                passes.append(watch.ready_s)
                total_s += end_s - begin_s
    finally:
        watch.remove()
    return _mean(name, passes, watch.sizes, Iteration(total_s / iterations, "measured"))


class _Watch:
    """Notes when the gradient of each parameter has come, in seconds since `begin`."""

    def __init__(self, module: torch.nn.Module, now_s: Callable[[], float]) -> None:
        self.ready_s: dict[str, float] = {}
        self.sizes: dict[str, int] = {}
        self._now_s = now_s
        self._begin_s = 0.0
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._hook(name))
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        ]

    def begin(self) -> None:
        """A backward pass begins."""
        self.ready_s = {}
        self._begin_s = self._now_s()

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _hook(self, name: str) -> Callable[[torch.Tensor], None]:
        def ready(parameter: torch.Tensor) -> None:
            self.ready_s[name] = self._now_s() - self._begin_s
            self.sizes[name] = _gradient_bytes(parameter.grad)

        return ready


def _gradient_bytes(gradient: Any) -> int:
    """Bytes of a gradient; of a sparse one, those of its values."""
    values = gradient._values() if gradient.is_sparse else gradient  # before it is coalesced
    return int(values.numel() * values.element_size())


def _mean(
    name: str, passes: list[dict[str, float]], sizes: dict[str, int], iteration: Iteration
) -> Profile:
    order = sorted(passes[0], key=passes[0].__getitem__)
    if not order:
        raise PlanError(f"{name}: no parameter got a gradient; does the loss depend on one?")
    if any(each.keys() != passes[0].keys() for each in passes):
        raise PlanError(f"{name}: gradients of other parameters came in other iterations")
    ready_s = np.array([[each[parameter] for parameter in order] for each in passes]).mean(axis=0)
    # The mean keeps the order of one iteration nearly; where it does not, nothing waits.
    wait_s = np.diff(np.maximum.accumulate(ready_s), prepend=0.0)
    return Profile(name, wait_s, np.array([sizes[each] for each in order], np.int64), iteration)


def _synchronised_s(torch: Any, device: Any) -> float:
    """Now, when the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _device_of(module: torch.nn.Module, torch: Any) -> Any:
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def _import_torch() -> Any:
    try:
        import torch  # noqa: PLC0415  optional
    except ImportError as error:
        raise PlanError("profiles of modules need PyTorch: pip install torch") from error
    return torch
