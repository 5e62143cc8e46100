"""A flag that a poller can wait for."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress


class Wake:
    """An event descriptor: readable from `set` to `clear`; may be set from any thread."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def fileno(self) -> int:
        """Readable while the flag is set."""
        return self._descriptor

    def set(self) -> None:
        """Wake whoever waits."""
        os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Take the flag back; does nothing if it is not set."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)

    def close(self) -> None:
        """Close the descriptor; done by itself when nobody refers to the flag any more."""
        self._close()
