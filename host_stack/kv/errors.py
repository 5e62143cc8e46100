"""What can go wrong on the cold path, by name."""

from collections.abc import Iterable

from host_stack.errors import BadInput, LibraError


class KVError(LibraError):
    """Any failure of the key-value store."""


class KVConfigError(KVError, BadInput):
    """A configuration value or an environment variable is missing or out of range."""

    exit_code = 2


class KVUsageError(KVError, BadInput):
    """A call that the caller must correct: wrong array, wrong state, wrong thread."""

    exit_code = 2


class KVConnectError(KVError):
    """An address could not be bound or connected."""


class WireError(KVError):
    """Bytes from a peer that are not a message of the protocol."""


class KVProtocolError(KVError):
    """A well-formed message that contradicts what was asked or agreed."""


class KVRefused(KVError):
    """A server does not take a push or a pull; nothing of it counts. The text says why."""


class KVHandlerError(KVError):
    """A request handle or a callback raised its cause; the node has gone on receiving."""


class KVTimeout(KVError):
    """A deadline passed; `missing` holds the node ids that did not answer (empty if unknown)."""

    def __init__(self, text: str, missing: Iterable[int] = ()) -> None:
        """Keep the message for the user and the silent nodes for the program."""
        super().__init__(text)
        self.missing: tuple[int, ...] = tuple(missing)


class KVNodeLost(KVTimeout):
    """A node is lost before the deadline: silent, acknowledging nothing, or started anew."""
