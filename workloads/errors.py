"""The error of this package."""

from host_stack.errors import BadInput


class WorkloadError(BadInput):
    """A data set, a model or one of their options cannot be used as given."""
