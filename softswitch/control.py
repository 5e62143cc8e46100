"""The control socket of a running switch: faults of links, their state, and counters.

A Unix-domain socket that only its user may connect to. A connection carries one request and one
reply, each a line of JSON:

    {"op": "fault", "port": 1, "direction": "tx", "loss": 0.05, "delay": "5ms"}
    {"op": "link", "port": "all", "up": false}
    {"op": "stats"}

    {"ok": true, "result": …}      {"ok": false, "error": "what was wrong"}
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import struct
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from softswitch.errors import InvalidArgument, PortError, SoftSwitchError
from softswitch.faults import FaultRule, read_port
from softswitch.folders import make_private
from softswitch.wiring import Wiring

LOGGER = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 1 << 16
MAX_REPLY_BYTES = 1 << 22
REQUEST_TIMEOUT_S = 2.0
REPLY_TIMEOUT_S = 10.0
MAX_PATH_BYTES = 107  # sockaddr_un


class ControlServer:
    """Serves the control socket of a switch at `path`, in a folder of this user's own."""

    def __init__(self, path: Path, wiring: Wiring) -> None:
        self.path = path
        self._wiring = wiring
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._wake = -1

    def start(self) -> None:
        """Listen. Raises PortError when the path cannot be used or another switch has it."""
        self._socket = _listen(self.path)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(
            target=self._run, args=(self._socket,), name="softswitch-control", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End and remove the socket. May be called twice."""
        if self._socket is None or self._thread is None:
            return
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._socket.close()
        self.path.unlink(missing_ok=True)
        os.close(self._wake)
        self._socket = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, listener: socket.socket) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while self._wake not in dict(poll.poll()):
            try:
                connection, _ = listener.accept()
            except OSError:
                continue
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        """Serve one connection; whatever it does, the next one is served."""
        try:
            if _peer(connection) not in (0, os.geteuid()):
                return
            reply: dict[str, object] = {"ok": True, "result": self._do(_receive(connection))}
        except SoftSwitchError as error:
            reply = {"ok": False, "error": str(error)}
        except OSError:
            return
        except Exception:
            LOGGER.exception("a control request failed")
            reply = {"ok": False, "error": "internal error; the switch's log has more"}
        try:
            connection.settimeout(REQUEST_TIMEOUT_S)
            connection.sendall(json.dumps(reply).encode() + b"\n")
        except OSError as error:
            LOGGER.info("a control reply was not taken: %s", error)

    def _do(self, request: dict[str, object]) -> object:
        words = dict(request)
        op = words.pop("op", None)
        if op == "fault":
            rule = FaultRule.from_json(words)
            self._wiring.set_faults(rule)
            LOGGER.info("faults of links: %s", rule)
        elif op == "link" and words.keys() == {"port", "up"} and type(words["up"]) is bool:
            port = read_port(words["port"])
            self._wiring.set_state(port, up=words["up"])
            LOGGER.info("link of port %s: %s", words["port"], "up" if words["up"] else "down")
        elif op == "stats" and not words:
            return self._wiring.stats()
        else:
            raise InvalidArgument(
                'a request is {"op": "fault", "port": …, "direction": …, …}, '
                '{"op": "link", "port": …, "up": true or false} or {"op": "stats"}'
            )
        return {}


class ControlClient:
    """Talks to the control socket of a running switch.

    Methods raise InvalidArgument when the switch refuses, PortError when there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def set_faults(self, rule: FaultRule) -> None:
        """Set the faults of links."""
        for direction in rule.directions:
            port = "all" if rule.port is None else rule.port
            words = rule.faults.words()
            self._call({"op": "fault", "port": port, "direction": direction, **words})

    def set_link_state(self, port: int | None, *, up: bool) -> None:
        """Cut the link of a port (None: of all ports), or mend it."""
        self._call({"op": "link", "port": "all" if port is None else port, "up": up})

    def stats(self) -> dict[str, Any]:
        """Return the switch's counters, as `Wiring.stats` makes them."""
        result: dict[str, Any] = self._call({"op": "stats"})
        return result

    def _call(self, request: dict[str, object]) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(os.fspath(_checked(self.path)))
                connection.sendall(json.dumps(request).encode() + b"\n")
                reply = json.loads(_read_line(connection, MAX_REPLY_BYTES, REPLY_TIMEOUT_S))
            except (OSError, ValueError) as error:
                raise PortError(f"no switch answers at {self.path}: {error}") from None
        if not isinstance(reply, dict) or not isinstance(reply.get("ok"), bool):
            raise PortError(f"what answers at {self.path} is not a switch")
        if not reply["ok"]:
            raise InvalidArgument(f"the switch refuses: {reply.get('error')}")
        return reply.get("result")


def _checked(path: Path) -> Path:
    if len(os.fsencode(path)) > MAX_PATH_BYTES or "\0" in str(path):
        raise PortError(
            f"{path}: the path of a socket has at most {MAX_PATH_BYTES} bytes; choose another one"
        )
    return path


def _listen(path: Path) -> socket.socket:
    _checked(path)
    try:
        if not make_private(path.parent):
            raise PortError(
                f"{path.parent} belongs to or is writable by another user: put the control socket "
                "into a folder of your own"
            )
        listener = socket.socket(socket.AF_UNIX)
        try:
            _bind(listener, path)
            path.chmod(0o600)
            listener.listen()
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise PortError(f"no control socket at {path}: {error.strerror or error}") from None
    return listener


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind to `path`, in place of a socket that a dead switch has left."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise PortError(f"another switch has the control socket {path}")
    elif path.exists():
        raise PortError(
            f"{path} is there already and no socket; name a file for the control socket that is "
            "not there yet"
        )
    listener.bind(os.fspath(path))


def _peer(connection: socket.socket) -> int:
    """Return the user at the other end."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


def _receive(connection: socket.socket) -> dict[str, object]:
    try:
        request = json.loads(_read_line(connection, MAX_REQUEST_BYTES, REQUEST_TIMEOUT_S))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"a request is a line of JSON: {error}") from None
    if not isinstance(request, dict):
        raise InvalidArgument("a request is an object of JSON")
    return request


def _read_line(connection: socket.socket, limit: int, timeout_s: float) -> bytes:
    """Read up to a line's end. Raises OSError, or ValueError if there is none."""
    deadline = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(limit)
        if not part or len(line) + len(part) > limit:
            raise ValueError(f"no end of line within {limit} bytes")
        line += part
    return line
