"""What handles and callbacks of a program raise.

Where they run in the owner's loop, it gets that itself. A thread of the node's own has to go on
receiving for all other requests; what is raised there is logged, counted, and raised again where
the program waits next.
"""

import logging
import threading

from host_stack.kv.errors import KVHandlerError
from host_stack.kv.stats import NodeStats

_LOG = logging.getLogger(__name__)


class Failures:
    """The failures of one node, counted in `NodeStats.handler_failed`."""

    def __init__(self, stats: NodeStats, *, goes_on: bool) -> None:
        """Have none; `goes_on` where a thread receives."""
        self._stats = stats
        self._goes_on = goes_on
        self._lock = threading.Lock()
        self._first: KVHandlerError | None = None

    def note(self, what: str, error: Exception) -> KVHandlerError:
        """Log and count what was raised; return the typed error for it.

        Raises `error` itself where the owner of the loop is to get it.
        """
        if not self._goes_on:
            raise error
        _LOG.error("%s raised %r", what, error, exc_info=error)
        with self._lock:
            self._stats.handler_failed += 1
        failure = KVHandlerError(f"{what} raised {error!r:.200}")
        failure.__cause__ = error
        return failure

    def keep(self, failure: KVHandlerError) -> None:
        """Keep a failure for the next wait, if none is kept yet."""
        with self._lock:
            self._first = self._first or failure

    def raise_kept(self) -> None:
        """Raise what is kept, once."""
        with self._lock:
            first, self._first = self._first, None
        if first is not None:
            raise first
