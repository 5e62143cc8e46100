"""Supervised processes: events from standard output, a log each, readiness waited for, not hoped.

A process writes one JSON object a line on its standard output, `{"event": "ready", …}`; other
lines and its standard error go to its log. Waiting ends with what was waited for, with the
death of the process (`ProcessDied`, which shows the end of the log) or at the deadline
(`NotReady`).
"""

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self, TypeVar

from mininet_topos.errors import BadTopology, NotReady, ProcessDied

LOG_TAIL_LINES = 20
_LOG_TAIL_BYTES = 16 * 1024
_LINE_MAX_BYTES = 1 << 20
_PROBE_INTERVAL_S = 0.02
_CHUNK_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Event:
    """One line that a process wrote: who, the value of its key `event`, and the other keys."""

    process: str
    kind: str
    fields: Mapping[str, Any]


OnEvent = Callable[[Event], None]
_T = TypeVar("_T")


def parse_event(process: str, line: bytes) -> Event | None:
    """Read an event from a line; None when the line is anything else."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        return None
    return Event(process, fields.pop("event"), fields)


def tcp_probe(host: str, port: int) -> Callable[[], bool]:
    """Make a probe for `wait_until`: whether something listens on a TCP port of this namespace."""

    def probe() -> bool:
        try:
            socket.create_connection((host, port), timeout=1.0).close()
        except OSError:
            return False
        return True

    return probe


class SupervisedProcess:
    """A running child process; made by `ProcessGroup.start`.

    A thread of its own reads its events and waits for its end. All methods may be called from
    any thread.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log_path: Path,
        *,
        env: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self.returncode: int | None = None
        self._on_event = on_event
        self._callback_error: Exception | None = None
        self._pending: dict[str, deque[Event]] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._log: BinaryIO = log_path.open("ab", buffering=0)
        self._log_start = self._log.seek(0, os.SEEK_END)
        try:
            # A session of its own: Ctrl-C reaches the supervisor alone, which stops in order.
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=None if env is None else os.environ | env,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise ProcessDied(name, 127, f"could not be started: {error}", []) from None
        self._reader = threading.Thread(target=self._follow, name=f"follow-{name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process identifier, as seen inside the emulation."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self.returncode is None

    def wait_event(self, kind: str, timeout_s: float) -> Event:
        """Wait for the next event of a kind that no earlier call returned.

        Raises:
            ProcessDied: the process ended without it.
            NotReady: it did not come in time.

        """

        def take() -> Event | None:
            queue = self._pending.get(kind)
            return queue.popleft() if queue else None

        return self._wait(take, f"event '{kind}'", timeout_s, timeout_s)

    def wait_until(self, probe: Callable[[], bool], awaited: str, timeout_s: float) -> None:
        """Wait until a probe (see `tcp_probe`) succeeds; `awaited` names it in errors.

        Raises:
            ProcessDied, NotReady: as `wait_event`.

        """
        self._wait(lambda: probe() or None, awaited, timeout_s, _PROBE_INTERVAL_S)

    def wait_exit(self, timeout_s: float) -> int:
        """Wait for the process to end and return its exit code (negative: minus the signal).

        Raises:
            NotReady: it still runs at the deadline.

        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self.running, timeout_s):
                raise NotReady(self.name, "end of the process", timeout_s, self.log_tail())
        assert self.returncode is not None  # noqa: S101
        return self.returncode

    def check(self) -> None:
        """Raise ProcessDied when the process failed, or what its event callback raised.

        An exit with code 0 and one that `stop` or `kill` asked for are no failures.
        """
        if self._callback_error is not None:
            raise self._callback_error
        if self.returncode not in {None, 0} and not self._stopping:
            raise self._died()

    def require_running(self) -> None:
        """Raise ProcessDied when the process has ended, whatever its exit code."""
        if not self.running:
            raise self._died()

    def stop(self, grace_s: float = 5.0) -> None:
        """End the process and its children: SIGTERM, after the grace SIGKILL. May be repeated."""
        self.terminate()
        with self._changed:
            self._changed.wait_for(lambda: not self.running, grace_s)
        self.kill()

    def go(self) -> None:
        """Let a process go on that waits for a line on its standard input."""
        assert self._popen.stdin is not None  # noqa: S101
        with suppress(BrokenPipeError, ValueError):
            self._popen.stdin.write(b"go\n")
            self._popen.stdin.flush()

    def terminate(self) -> None:
        """Ask the process to end, without waiting."""
        self._stopping = True
        if self.running:
            self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End the process and its children at once, and wait until they are gone."""
        self._stopping = True
        self._send(signal.SIGKILL)
        self._reader.join()

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> list[str]:
        """Return the last lines that this process logged (not an earlier one of its name)."""
        with self.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()[-lines:]

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, number)

    def _died(self) -> ProcessDied:
        code = self.returncode
        assert code is not None  # noqa: S101
        ending = f"ended with exit code {code}" if code >= 0 else f"was killed by {_signal(-code)}"
        told = self._pending.get("failed")
        why = str(told[-1].fields.get("why")) if told else None
        ending = f"{ending} (log: {self.log_path})"
        return ProcessDied(self.name, code, ending, self.log_tail(), why)

    def _wait(
        self, poll: Callable[[], _T | None], awaited: str, timeout_s: float, interval_s: float
    ) -> _T:
        """Poll at every event, at the end of the process, and at an interval."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while (found := poll()) is None:
                if not self.running:
                    raise self._died()
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    raise NotReady(self.name, awaited, timeout_s, self.log_tail())
                self._changed.wait(min(interval_s, remaining_s))
            return found

    def _follow(self) -> None:
        """Read events until the process has ended; children that outlive it are not waited for."""
        assert self._popen.stdout is not None  # noqa: S101
        assert self._popen.stdin is not None  # noqa: S101
        with self._popen.stdout as stdout, selectors.DefaultSelector() as selector:
            os.set_blocking(stdout.fileno(), False)
            pidfd = os.pidfd_open(self._popen.pid)
            selector.register(pidfd, selectors.EVENT_READ)
            selector.register(stdout, selectors.EVENT_READ)
            carry = b""
            ended = False
            while not ended:
                ready = {key.fd for key, _ in selector.select()}
                ended = pidfd in ready
                if ended or stdout.fileno() in ready:
                    carry, closed = self._drain(stdout.fileno(), carry)
                    if closed and not ended:
                        selector.unregister(stdout)
            os.close(pidfd)
        self._take_line(carry)
        code = self._popen.wait()
        with suppress(BrokenPipeError):
            self._popen.stdin.close()
        self._log.close()
        with self._changed:
            self.returncode = code
            self._changed.notify_all()

    def _drain(self, fd: int, carry: bytes) -> tuple[bytes, bool]:
        """Take the lines that are there; returns the unfinished line and whether it was the end."""
        while True:
            try:
                chunk = os.read(fd, _CHUNK_BYTES)
            except BlockingIOError:
                return carry, False
            if not chunk:
                return carry, True
            *lines, carry = (carry + chunk).split(b"\n")
            for line in lines:
                self._take_line(line)
            if len(carry) > _LINE_MAX_BYTES:
                self._write(carry)
                carry = b""

    def _write(self, data: bytes) -> None:
        """Log something; on a full disk it is lost, and not the end of the process."""
        with suppress(OSError):
            self._log.write(data)

    def _take_line(self, line: bytes) -> None:
        event = parse_event(self.name, line)
        if event is None:
            if line:
                self._write(line + b"\n")
            return
        with self._changed:
            self._pending.setdefault(event.kind, deque()).append(event)
            self._changed.notify_all()
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception as error:
                self._callback_error = error


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class HasPid(Protocol):
    """A Mininet node: the process whose network namespace others join."""

    pid: int


class ProcessGroup:
    """The supervised processes of an emulation; stops all of them when its `with` block ends.

    Each process logs to `<log_dir>/<name>.log`.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self._processes: dict[str, SupervisedProcess] = {}
        log_dir.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        node: HasPid | None = None,
        env: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
    ) -> SupervisedProcess:
        """Start a process, in a host's network namespace when a node is given.

        A name may be used again once its process has ended. `env` is added to the environment.

        Raises:
            BadTopology: the name is not fit for a file name, or its process still runs.
            ProcessDied: the program could not be started.

        """
        if not _NAME.fullmatch(name):
            raise BadTopology(
                f"process name {name!r}: allowed are 1 to 64 letters, digits, '.', '_' and '-', "
                "a letter or digit first"
            )
        if name in self._processes and self._processes[name].running:
            raise BadTopology(f"a process named '{name}' still runs; stop it first")
        join = [] if node is None else ["mnexec", "-a", str(node.pid)]
        process = SupervisedProcess(
            name, [*join, *argv], self.log_dir / f"{name}.log", env=env, on_event=on_event
        )
        self._processes[name] = process
        return process

    def __getitem__(self, name: str) -> SupervisedProcess:
        return self._processes[name]

    def check(self) -> None:
        """Raise the error of the first process that failed, see `SupervisedProcess.check`."""
        for process in self._processes.values():
            process.check()

    def stop(self, grace_s: float = 5.0) -> None:
        """Stop every process; the grace is theirs together."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + grace_s
        for process in self._processes.values():
            process.stop(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
