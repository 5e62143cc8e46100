"""Isolation: what is visible inside, what comes out, and that nothing stays behind."""

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from mininet_topos import namespace
from mininet_topos.errors import (
    EmulationError,
    IsolationFailed,
    MissingTool,
    NeedsRoot,
    NotIsolated,
)
from mininet_topos.namespace import is_isolated, require_isolated, run_isolated
from tests.isolation import isolated

DEADLINE_S = 30.0
ENTER = "from mininet_topos.namespace import enter_isolated\nenter_isolated()\n"
# Says where it lives, waits for a signal, and says that it was unwound.
WAIT = ENTER + (
    "import os, time\n"
    "try:\n"
    "    print(os.readlink('/proc/self/ns/net'), flush=True)\n"
    "    while True: time.sleep(60)\n"
    "finally:\n"
    "    print('unwound', flush=True)\n"
)


def can_isolate() -> str | None:
    """Say why emulations cannot run here; None when they can."""
    try:
        run_isolated(["true"])
    except EmulationError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def isolation() -> None:
    """Skip the test where emulations cannot run."""
    if (reason := can_isolate()) is not None:
        pytest.skip(reason)


def start(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a script that enters an emulation, in a process group of its own."""
    argv = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)


def members(network: str) -> list[int]:
    """List the processes that live in a network namespace."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(link) == network:
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found


def wait_until_empty(network: str) -> None:
    """Wait for the kernel to have killed the last member of a namespace."""
    deadline = time.monotonic() + DEADLINE_S
    while members(network):
        assert time.monotonic() < deadline, f"{members(network)} still live in {network}"
        time.sleep(0.01)


@isolated
def test_inside_there_is_a_network_of_its_own():
    """Loopback alone, up, in /sys too; process 1 is the emulation's; no IPv6."""
    assert is_isolated()
    require_isolated()
    assert os.listdir("/sys/class/net") == ["lo"]
    assert int(Path("/sys/class/net/lo/flags").read_text(), 16) & 1
    assert "isolation_init" in Path("/proc/1/cmdline").read_text()
    ipv6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    assert not ipv6.exists() or ipv6.read_text().strip() == "1"


@pytest.mark.root
@pytest.mark.usefixtures("isolation")
def test_command_is_continued_with_its_arguments_streams_and_exit_code():
    """The same command line runs inside, once."""
    script = ENTER + "import sys; print(*sys.argv[1:], input()); sys.exit(37)"
    done = subprocess.run(
        [sys.executable, "-c", script, "a b", "$HOME"],
        input="typed\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (37, "a b $HOME typed\n", "")


@pytest.mark.root
@pytest.mark.usefixtures("isolation")
def test_terminal_is_passed_through():
    """Progress bars see the terminal and its size."""
    script = ENTER + "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns)"
    ours, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 91))
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=terminal, check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 0
    assert os.read(ours, 100).decode().split() == ["True", "91"]
    os.close(ours)
    os.close(terminal)


@pytest.mark.root
@pytest.mark.usefixtures("isolation")
def test_exit_code_of_a_killed_command_is_a_shells():
    """128 and the number of the signal."""
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run_isolated([sys.executable, "-c", kill]) == 128 + signal.SIGKILL


@pytest.mark.root
@pytest.mark.usefixtures("isolation")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
@pytest.mark.parametrize("to_group", [False, True])
def test_signal_unwinds_the_command(number: signal.Signals, code: int, to_group: bool):
    """Once, whether it is sent to the outer process or, like Ctrl-C, to its process group."""
    script = WAIT.replace(
        "finally:\n", "except KeyboardInterrupt: raise SystemExit(130)\nfinally:\n"
    )
    with start(script) as process:
        assert process.stdout is not None
        network = process.stdout.readline().strip()
        (os.killpg if to_group else os.kill)(process.pid, number)
        rest, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, rest) == (code, "unwound\n")
    assert members(network) == []


@pytest.mark.root
@pytest.mark.usefixtures("isolation")
def test_kill_leaves_nothing_behind():
    """A killed run's processes are killed by the kernel, those that left its session too."""
    script = WAIT.replace(
        "try:\n",
        "import subprocess\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "subprocess.run(['ip', 'link', 'add', 'v0', 'type', 'veth'], check=True)\n"
        "try:\n",
    )
    before = set(os.listdir("/sys/class/net"))
    with start(script) as process:
        assert process.stdout is not None
        network = process.stdout.readline().strip()
        assert len(members(network)) >= 3
        process.kill()
        wait_until_empty(network)
    assert set(os.listdir("/sys/class/net")) == before


@pytest.mark.root
@pytest.mark.usefixtures("isolation")
def test_command_that_does_not_exist_is_an_error():
    """It is told from a command that fails."""
    with pytest.raises(IsolationFailed, match="no-such-command"):
        run_isolated(["no-such-command"])


def test_refusals_say_what_to_do(monkeypatch: pytest.MonkeyPatch):
    """Not root, no util-linux, namespaces forbidden, network outside of an emulation."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NeedsRoot, match="sudo"):
        run_isolated(["true"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespace, "_UNSHARE", ("sh", "-c", "echo forbidden >&2; exit 1", "--"))
    with pytest.raises(IsolationFailed, match=r"forbidden here: .*forbidden; in a container"):
        run_isolated(["true"])
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingTool, match=r"unshare is not on PATH; .* apt install util-linux"):
        run_isolated(["true"])
    monkeypatch.setenv("LIBRA_EMULATION", "pid:[1]")
    with pytest.raises(NotIsolated, match="enter_isolated"):
        require_isolated()
