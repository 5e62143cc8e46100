"""Supervised processes: events, logs, readiness, death and stopping."""

import os
import select
import signal
import socket
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mininet_topos.errors import BadTopology, NotReady, ProcessDied
from mininet_topos.processes import Event, ProcessGroup, parse_event, tcp_probe

DEADLINE_S = 30.0
SAY = "import json, sys, time\ndef say(**event): print(json.dumps(event), flush=True)\n"
FOREVER = SAY + "say(event='ready')\nwhile True: time.sleep(60)\n"


def python(script: str) -> list[str]:
    """Return the command line of a script."""
    return [sys.executable, "-c", script]


@pytest.fixture
def group(tmp_path: Path):
    """Make a group that logs below the test's folder."""
    with ProcessGroup(tmp_path / "logs") as processes:
        yield processes


def test_events_are_waited_for_by_kind_and_in_order(group: ProcessGroup):
    """An event of another kind is kept for whom it concerns."""
    script = SAY + "say(event='round', n=1); say(event='ready'); say(event='round', n=2)"
    process = group.start("w0", python(script))
    assert process.wait_event("ready", DEADLINE_S) == Event("w0", "ready", {})
    assert [process.wait_event("round", DEADLINE_S).fields["n"] for _ in range(2)] == [1, 2]


def test_events_reach_the_callback_even_from_a_process_that_has_ended(group: ProcessGroup):
    """What a process wrote last is not lost, a line without end included."""
    events: SimpleQueue[Event] = SimpleQueue()
    script = SAY + "say(event='a'); sys.stdout.write(json.dumps({'event': 'b', 'x': [1]}))"
    assert group.start("w0", python(script), on_event=events.put).wait_exit(DEADLINE_S) == 0
    assert [events.get_nowait() for _ in range(2)] == [
        Event("w0", "a", {}),
        Event("w0", "b", {"x": [1]}),
    ]


def test_error_in_the_callback_is_raised_by_check(group: ProcessGroup):
    """A broken observer is an error of the run, not a silent loss."""

    def refuse(event: Event) -> None:
        raise ValueError(event.kind)

    group.start("w0", python(SAY + "say(event='a')"), on_event=refuse).wait_exit(DEADLINE_S)
    with pytest.raises(ValueError, match="a"):
        group.check()


def test_other_output_goes_to_the_log(group: ProcessGroup):
    """Lines that are no events, standard error, and bytes that are no text."""
    script = SAY + "print('plain'); print('[1]'); sys.stdout.flush()\n"
    script += "sys.stderr.write('err\\n'); sys.stderr.flush(); sys.stdout.buffer.write(b'\\xff\\n')"
    process = group.start("w0", python(script))
    process.wait_exit(DEADLINE_S)
    assert set(process.log_tail()) == {"plain", "[1]", "err", "\ufffd"}


def test_death_names_process_and_code_and_shows_the_end_of_the_log(group: ProcessGroup):
    """The last 20 lines are shown, not those before."""
    script = "import sys\nfor n in range(50): print('line', n, file=sys.stderr)\nsys.exit(3)"
    process = group.start("w7", python(script))
    with pytest.raises(ProcessDied) as caught:
        process.wait_event("ready", DEADLINE_S)
    text = str(caught.value)
    assert text.startswith("w7 ended with exit code 3")
    assert str(process.log_path) in text
    assert "| line 30\n" in text and text.endswith("| line 49")
    assert "line 29" not in text
    with pytest.raises(ProcessDied):
        group.check()


def test_a_process_that_says_why_it_fails_is_believed(group: ProcessGroup):
    """In one line, whatever its log holds: on a full disk that may be nothing."""
    script = SAY + "sys.stderr.write('x\\ny\\n'); say(event='failed', why='no room'); sys.exit(1)"
    process = group.start("w0", python(script))
    process.wait_exit(DEADLINE_S)
    with pytest.raises(ProcessDied) as died:
        process.check()
    assert str(died.value) == "w0: no room"


def test_a_log_that_cannot_be_written_does_not_keep_anybody_waiting(tmp_path: Path):
    """The end of the process is noticed, and so are its events."""
    (tmp_path / "w0.log").symlink_to("/dev/full")
    with ProcessGroup(tmp_path) as group:
        script = SAY + "print('x'); say(event='a'); sys.exit(3)"
        process = group.start("w0", python(script))
        assert process.wait_event("a", DEADLINE_S).kind == "a"
        assert process.wait_exit(DEADLINE_S) == 3


def test_death_by_signal_names_the_signal(group: ProcessGroup):
    """A crash is told from an exit."""
    process = group.start("s1", python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert process.wait_exit(DEADLINE_S) == -signal.SIGSEGV
    with pytest.raises(ProcessDied, match="s1 was killed by SIGSEGV"):
        process.check()


def test_log_of_an_earlier_process_of_the_name_is_kept_but_not_shown(group: ProcessGroup):
    """A restarted switch is not blamed for its predecessor's last words."""
    fail = "import sys; sys.exit(sys.argv[1])"
    for word in ("first", "second"):
        group.start("s1", [*python(fail), word]).wait_exit(DEADLINE_S)
    with pytest.raises(ProcessDied) as caught:
        group["s1"].check()
    assert caught.value.log_tail == ["second"]
    assert group["s1"].log_path.read_text().splitlines() == ["first", "second"]


def test_program_that_does_not_exist_is_an_error(group: ProcessGroup):
    """It is named, without a traceback of the operating system's."""
    with pytest.raises(ProcessDied, match="w0 could not be started"):
        group.start("w0", ["/no/such/program"])


def test_deadline_names_what_was_waited_for(group: ProcessGroup):
    """A process that lives but says nothing is not waited for forever."""
    process = group.start("w0", python(FOREVER))
    process.wait_event("ready", DEADLINE_S)
    with pytest.raises(NotReady, match=r"w0: no event 'done' within 0\.01 s"):
        process.wait_event("done", 0.01)
    with pytest.raises(NotReady, match="end of the process"):
        process.wait_exit(0.01)


def test_probe_waits_until_a_port_listens(group: ProcessGroup):
    """Readiness of a process that reports nothing is probed."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    script = f"import socket\nserver = socket.create_server(('127.0.0.1', {port}))\n"
    process = group.start("s1", python(script + "while True: server.accept()"))
    process.wait_until(tcp_probe("127.0.0.1", port), "server", DEADLINE_S)
    process.stop()
    assert not tcp_probe("127.0.0.1", port)()


def test_stop_kills_what_ignores_the_request_and_its_children(group: ProcessGroup):
    """SIGTERM is ignored here: SIGKILL follows, for the whole process group."""
    child = "import time\nwhile True: time.sleep(60)"
    script = (
        SAY + "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "say(event='ready', child=child.pid)\nchild.wait()"
    )
    process = group.start("w0", python(script))
    child_pid = process.wait_event("ready", DEADLINE_S).fields["child"]
    child = os.pidfd_open(child_pid)
    process.stop(grace_s=0.05)
    assert process.returncode == -signal.SIGKILL
    assert select.select([child], [], [], DEADLINE_S)[0], "the child lives on"
    os.close(child)
    process.check()  # it was asked to end


def test_leaving_the_group_stops_everything(tmp_path: Path):
    """Also when an error leaves the block."""
    with pytest.raises(KeyError), ProcessGroup(tmp_path) as processes:
        started = [processes.start(f"w{rank}", python(FOREVER)) for rank in range(3)]
        raise KeyError
    assert not any(process.running for process in started)
    for process in started:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_names_are_file_names_and_unique_among_the_running(group: ProcessGroup):
    """A name cannot leave the log folder, nor stand for two processes."""
    for name in ("", "../x", "a/b", ".hidden", "a" * 65, "a\n"):
        with pytest.raises(BadTopology, match="process name"):
            group.start(name, python(""))
    group.start("w0", python(FOREVER))
    with pytest.raises(BadTopology, match="still runs"):
        group.start("w0", python(FOREVER))


@settings(derandomize=True)
@given(st.binary(max_size=64))
def test_no_line_breaks_the_parser(line: bytes):
    """Whatever a process writes is an event or nothing."""
    event = parse_event("w0", line)
    assert event is None or isinstance(event.kind, str)


@pytest.mark.parametrize("line", [b"", b"{}", b'{"event": 1}', b"[]", b"nan", b"[" * 100_000])
def test_lines_that_are_no_events(line: bytes):
    """Only an object with a text under 'event' is one."""
    assert parse_event("w0", line) is None
