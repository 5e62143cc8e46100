"""An emulation runs whole inside namespaces of its own (the design, section 7).

Nothing of the machine's interfaces is visible inside, two emulations do not collide, and when
an emulation's first process ends, however it ends, the kernel kills every process in it and
with the last one its interfaces vanish: a crash leaves nothing behind.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from mininet_topos import isolation_init
from mininet_topos.errors import CommandFailed, IsolationFailed, NeedsRoot, NotIsolated
from mininet_topos.tools import require_tools, run_tool

_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def is_isolated() -> bool:
    """Whether this process lives inside an emulation (its root or one of its hosts)."""
    return os.environ.get(isolation_init.MARKER) == os.readlink("/proc/self/ns/pid")


def require_isolated() -> None:
    """Raise NotIsolated when this process lives outside of an emulation."""
    if not is_isolated():
        raise NotIsolated(
            "networks are built inside an emulation's own namespaces only; "
            "call mininet_topos.namespace.enter_isolated() first"
        )


def enter_isolated() -> None:
    """Continue the current command inside an emulation of its own.

    Call it early in a command, before it has effects: the command is started again, with the
    same arguments, terminal and environment, inside new namespaces, where this function returns
    at once. Outside it does not return: it ends with the exit code of the inner command.
    Inside, SIGTERM and SIGHUP unwind the stack like an exit does, so that `with` blocks clean up.

    Raises:
        NeedsRoot: this process is not root's.
        MissingTool: util-linux or iproute2 is not installed.
        IsolationFailed: namespaces are forbidden here.

    """
    if is_isolated():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _exit_on_signal)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(run_isolated([sys.executable, *sys.orig_argv[1:]]))


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    for further in (signal.SIGTERM, signal.SIGHUP):  # the way out is not to be cut short
        signal.signal(further, lambda *_: None)
    raise SystemExit(128 + number)


def run_isolated(command: Sequence[str]) -> int:
    """Run a command inside an emulation of its own, to its end.

    The command shares the caller's terminal and standard streams. Signals that the caller gets
    reach it once, whether they come from the terminal or from `kill`. Must be called from the
    main thread.

    Returns:
        The exit code of the command, 128 + n when signal n killed it.

    Raises:
        NeedsRoot, MissingTool, IsolationFailed: as `enter_isolated`.

    """
    require_permission()
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, _signals(lambda number: _send_signal(ours, number)):
            init = [sys.executable, "-I", isolation_init.__file__, str(theirs.fileno())]
            # `unshare` must outlive what the whole process group gets; its child unblocks it.
            old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, isolation_init.FORWARDED)
            try:
                process = subprocess.Popen([*_UNSHARE, *init, *command], pass_fds=[theirs.fileno()])
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            theirs.close()
            answer = ours.recv(4096)
            code = process.wait()
        if answer != isolation_init.READY:
            reason = answer.decode(errors="replace") or f"set-up ended with exit code {code}"
            raise IsolationFailed(f"could not set up the emulation's namespaces: {reason}")
    return code if code >= 0 else 128 - code


def require_permission() -> None:
    """Raise NeedsRoot, MissingTool or IsolationFailed where no emulation can be made."""
    if os.geteuid() != 0:
        raise NeedsRoot(
            "emulations make network namespaces, which only root may: run the command with sudo "
            f"(for example `sudo {Path(sys.executable)} …`)"
        )
    require_tools("unshare", "mount", "ip")
    try:
        run_tool([*_UNSHARE, "true"])
    except CommandFailed as error:
        raise IsolationFailed(
            f"network, mount and process namespaces are forbidden here: {error}; in a container, "
            "start it with `--privileged` or the capabilities SYS_ADMIN and NET_ADMIN"
        ) from None


def _send_signal(leash: socket.socket, number: int) -> None:
    with suppress(OSError):  # the command has just ended
        leash.send(bytes([number]))


@contextmanager
def _signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Hand the signals of `isolation_init.FORWARDED` to a function for a while."""
    before = {
        number: signal.signal(number, lambda got, _frame: handle(got))
        for number in isolation_init.FORWARDED
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shielded_from_signals() -> Iterator[None]:
    """Ignore further requests to end while the emulation is being taken down."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    with _signals(lambda _number: None):
        yield
