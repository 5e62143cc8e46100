"""Following a stream of a controller, whoever is restarted meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from host_stack.errors import BadInput

LOGGER = logging.getLogger(__name__)

RECONNECT_S = 0.2


class Follower:
    """A thread that opens a stream again and again, and hands on what it brings."""

    def __init__(
        self,
        name: str,
        open_stream: Callable[[], Iterator[Any]],
        take: Callable[[Any], None],
        failed: Callable[[grpc.RpcError], None],
    ) -> None:
        """Follow until `close`.

        Args:
            name: of the thread.
            open_stream: the call.
            take: is given each message; where it raises `BadInput`, the stream is opened anew.
            failed: is told why the stream ended.
        """
        self._open_stream = open_stream
        self._take = take
        self._failed = failed
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """Whether nothing is followed any more."""
        return self._closed.is_set()

    def close(self, channel: grpc.Channel) -> None:
        """Close the channel of the stream, and wait until the thread has ended."""
        self._closed.set()
        channel.close()
        self._thread.join()

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                for message in self._open_stream():
                    self._take(message)
            except grpc.RpcError as error:
                if not self._closed.is_set():
                    self._failed(error)
            except BadInput as error:
                LOGGER.error("the controller sent %s", error)
            except ValueError:
                # What grpc raises for a channel that was closed meanwhile.
                if not self._closed.is_set():
                    raise
            self._closed.wait(RECONNECT_S)
