"""What can go wrong between a PyTorch model and a job, by name."""

from host_stack.errors import BadInput, LibraError


class TorchMissing(LibraError, ImportError):
    """PyTorch is not installed."""


class TableError(BadInput):
    """An embedding, an index or a gradient that a job cannot take."""
