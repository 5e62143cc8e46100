"""What a controller refuses; `controller.daemon.codes` says which gRPC status each becomes."""

from __future__ import annotations

from host_stack.errors import BadInput, LibraError


class NotKnown(BadInput):
    """There is no job, or switch, of that name here; it says which there are."""


class AlreadyThere(BadInput):
    """A job of that number, a group or a request id is in use by something else."""


class NoRoom(LibraError):
    """Rows, slots or another limited thing are used up; it says what is free."""


class NotNow(LibraError):
    """The state of the job or the switch does not allow it; it says what to wait for."""


class Forbidden(LibraError):
    """The controller does not know this client, or its role does not allow the call."""


class DamagedState(LibraError):
    """The controller's state on disk cannot be used."""
