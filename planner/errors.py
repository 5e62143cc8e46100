"""The error of this package."""

from host_stack.errors import BadInput


class PlanError(BadInput):
    """A job description, a profile or an option of the planner cannot be used as given."""
