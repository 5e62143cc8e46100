"""The first process of an emulation's namespaces: sets them up, runs the command, reaps orphans.

It is started by `namespace.run_isolated` as process 1 of a new process namespace, by path and
with the standard library only, so that it starts fast. When it ends, the kernel kills whatever
is left in the namespace. A socket to the starter, the leash, carries signals in and a set-up
error out; when the starter dies the leash breaks and the emulation ends.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MARKER = "LIBRA_EMULATION"
READY = b"ready"
# Forwarded to the command. A terminal sends the first, the third and the fourth to the whole
# process group, of which the command is a member: those must not be delivered twice.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
_SAME_SIGNAL_S = 0.5


def set_up() -> None:
    """Make the new namespaces usable: loopback up, `/sys` of this network, no IPv6."""
    _call("ip", "link", "set", "dev", "lo", "up")
    _call("mount", "-t", "sysfs", "sysfs", "/sys")
    for scope in ("all", "default"):
        switch = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if switch.exists():
            switch.write_text("1")


def _call(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"`{' '.join(argv)}` returned {done.returncode}: {done.stderr.strip()}")


def supervise(command: list[str], leash: socket.socket) -> int:
    """Run the command until it ends or the leash breaks; returns a shell's exit code."""
    wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    # Handlers, not SIG_IGN: the command would inherit an ignored signal, a handler it does not.
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    environment = os.environ | {MARKER: os.readlink("/proc/self/ns/pid")}
    child = subprocess.Popen(command, env=environment)
    leash.sendall(READY)
    received_at: dict[int, float] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup_read, selectors.EVENT_READ)
        selector.register(leash, selectors.EVENT_READ)
        while (code := _reap(child.pid)) is None:
            ready = {key.fd for key, _ in selector.select()}
            # Read it even when it was not ready: a signal that came while the leash was becoming
            # readable is handled on the way out of `select`, and must be known before the leash.
            with suppress(BlockingIOError):
                received_at |= dict.fromkeys(os.read(wakeup_read, 4096), time.monotonic())
            if leash.fileno() in ready and not _forward(leash, child.pid, received_at):
                return 128 + signal.SIGHUP
    return code


def _reap(child_pid: int) -> int | None:
    """Collect every process that has ended; the exit code when the command is among them."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child_pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
    return None


def _forward(leash: socket.socket, child_pid: int, received_at: dict[int, float]) -> bool:
    """Deliver the signals that the starter got; False when the starter is gone.

    A signal that this process has just got itself was sent to the whole process group: the
    command has it already.
    """
    numbers = leash.recv(4096)
    for number in numbers:
        if time.monotonic() - received_at.get(number, float("-inf")) > _SAME_SIGNAL_S:
            with suppress(ProcessLookupError):
                os.kill(child_pid, number)
    return bool(numbers)


def main(leash_fd: int, command: list[str]) -> int:
    """Set up, run the command and return its exit code; a set-up error goes over the leash."""
    leash = socket.socket(fileno=leash_fd)
    leash.set_inheritable(False)
    try:
        set_up()
        return supervise(command, leash)
    except OSError as error:
        leash.sendall(str(error).encode())
        return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
