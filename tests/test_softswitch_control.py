"""The control socket of a running switch, and the commands that use it."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch import control
from softswitch.control import ControlClient, ControlServer
from softswitch.dataplane import DataPlane
from softswitch.errors import PortError
from softswitch.faults import Direction, FaultRule, LinkFaults
from softswitch.wiring import Wiring
from tests.in_namespace import observe
from tests.softswitch_port_session import swap_program
from tests.test_softswitch_cli import fails, run, serving

RX, TX = Direction.RX, Direction.TX


@pytest.fixture(name="wiring")
def links_of_two_ports() -> Wiring:
    """The links of a switch with ports 0 and 1; port 0 has faults from the start."""
    return Wiring([0, 1], {(0, RX): LinkFaults(loss=0.5, seed=1)})


@pytest.fixture(name="client")
def served(wiring: Wiring, tmp_path: Path) -> Iterator[ControlClient]:
    """A client of a switch that has no pipeline yet."""
    with ControlServer(tmp_path / "control", wiring) as server:
        yield ControlClient(server.path)


def exchange(path: Path, request: bytes) -> bytes:
    """Send bytes and no more; return the reply."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(os.fspath(path))
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        reply = b""
        while part := connection.recv(65536):
            reply += part
    return reply


@pytest.mark.compiler
def test_faults_follow_the_pipeline(wiring: Wiring, client: ControlClient) -> None:
    """What is asked for before, while and after a pipeline runs holds for each one."""
    assert not any(client.stats().values())
    client.set_faults(FaultRule.parse("1:both:loss=1"))
    with DataPlane.load(swap_program()) as first, DataPlane.load(swap_program()) as second:
        wiring.prepare(first)
        assert first.link_faults()[0, RX] == LinkFaults(loss=0.5, seed=1)
        assert first.inject(1, bytes(60)) == []
        client.set_link_state(None, up=False)
        assert first.inject(0, bytes(60)) == []
        found = client.stats()
        assert found["drops"]["fault_loss"] == found["drops"]["fault_cut"] == 1
        [link] = [link for link in found["links"] if (link["port"], link["direction"]) == (1, "rx")]
        assert (link["lost"], link["faults"]) == (1, "loss=1.0,down=true")
        wiring.prepare(second)
        assert all(faults.down for faults in second.link_faults().values())
        client.set_link_state(1, up=True)
        client.set_faults(FaultRule.parse("all:both:loss=0"))
        assert second.inject(0, bytes(60)) == [(1, bytes(60))]
        assert first.inject(0, bytes(60)) == []


def test_only_this_user_may_connect(client: ControlClient) -> None:
    """The socket has mode 0600."""
    assert client.path.stat().st_mode & 0o777 == 0o600


def test_other_users_are_refused(client: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer's user is checked as well; it gets no answer."""
    monkeypatch.setattr(control, "_peer", lambda _: os.geteuid() + 1)
    with pytest.raises(PortError, match="no switch answers"):
        client.stats()


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (b"", "line"),
        (b"\n", "line of JSON"),
        (b"[" * 5000 + b"\n", "line of JSON"),
        (b"\xff\xfe\n", "line of JSON"),
        (b"[]\n", "object"),
        (b"{}\n", "a request is"),
        (b'{"op": "stop"}\n', "a request is"),
        (b'{"op": "stats", "x": 1}\n', "a request is"),
        (b'{"op": "link", "port": 1, "up": 1}\n', "a request is"),
        (b'{"op": "link", "port": 7, "up": true}\n', "ports are 0, 1"),
        (b'{"op": "link", "port": [], "up": true}\n', "0 to 510"),
        (b'{"op": "fault", "port": 1}\n', "port and direction"),
        (b'{"op": "fault", "port": 5, "direction": "tx"}\n', "ports are 0, 1"),
        (b'{"op": "fault", "port": 1, "direction": "tx", "loss": 1e999}\n', "0 to 1"),
        (b'{"op": "fault", "port": 1, "direction": "tx", "delay": 5}\n', "unit"),
    ],
)
def test_bad_requests_are_refused(client: ControlClient, request_: bytes, reason: str) -> None:
    """The reply says what is wrong, and the next request is served."""
    reply = json.loads(exchange(client.path, request_))
    assert reply["ok"] is False
    assert reason in reply["error"]
    assert client.stats()["pipeline"] is False


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["op", "port", "direction", "up", "loss", "seed"]), inner
                )
            ),
        ).map(lambda value: json.dumps(value).encode() + b"\n"),
    )
)
def test_any_request_has_an_answer(client: ControlClient, request_: bytes) -> None:
    """Whatever comes, the switch answers a line of JSON without an internal error."""
    reply = json.loads(exchange(client.path, request_))
    assert reply["ok"] or "internal" not in reply["error"]


def test_silent_clients_do_not_stop_others(
    client: ControlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that says nothing, or has gone, is left behind."""
    monkeypatch.setattr(control, "REQUEST_TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as gone:
        for connection in (silent, gone):
            connection.connect(os.fspath(client.path))
        gone.close()
        assert client.stats()["pipeline"] is False


def test_paths_are_checked(tmp_path: Path, wiring: Wiring) -> None:
    """A switch's socket is not taken over, a dead one's is; folders of others are refused."""
    path = tmp_path / "new" / "control"
    with ControlServer(path, wiring):
        with pytest.raises(PortError, match="another switch"):
            ControlServer(path, wiring).start()
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    with ControlServer(path, wiring):
        assert ControlClient(path).stats()["pipeline"] is False
    path.write_text("a file")
    with pytest.raises(PortError, match="there already and no socket"):
        ControlServer(path, wiring).start()
    path.parent.chmod(0o777)
    with pytest.raises(PortError, match="folder of your own"):
        ControlServer(path.parent / "x", wiring).start()
    with pytest.raises(PortError, match="107 bytes"):
        ControlServer(tmp_path / ("x" * 120), wiring).start()
    with pytest.raises(PortError, match="no switch answers"):
        ControlClient(tmp_path / "none").stats()


def test_commands(tmp_path: Path) -> None:
    """`softswitch fault`, `link` and `stats` change and show a switch that runs."""
    path = tmp_path / "control"
    with serving("--control", path, "-i", "1@lo", "--fault", "all:rx:loss=0.5"):
        assert run("fault", "-s", path, "1:tx:delay=5ms", "all:rx:loss=0").stdout == ""
        assert run("link", "-s", path, "1", "down").returncode == 0
        assert run("stats", "-s", path).stdout == "no pipeline yet\n"
        assert json.loads(run("stats", "-s", path, "--json").stdout)["pipeline"] is False
        fails(run("fault", "-s", path, "2:tx:loss=0"), 1, "ports are 1")
        fails(run("link", "-s", path, "2", "up"), 1, "ports are 1")
    fails(run("stats", "-s", path), 1, "no switch answers")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "-i", "1@lo", "--fault", "1:tx:los=1"], ["no fault 'los'"]),
        (["run", "-i", "1@lo", "--fault", "2:tx:loss=1"], ["no port 2; ports are 1"]),
        (["run", "--fault", "tx:loss=1"], ["PORT:DIRECTION:FAULTS"]),
        (["fault", "-s", "x", "1:tx"], ["PORT:DIRECTION:FAULTS"]),
        (["fault", "1:tx:loss=0"], ["--switch"]),
        (["link", "-s", "x", "1", "off"], ["up", "down"]),
        (["link", "-s", "x", "x", "up"], ["0 to 510"]),
    ],
)
def test_wrong_usage(args: list[str], words: list[str]) -> None:
    """Wrong arguments end with exit code 2 and a line that says what is right."""
    fails(run(*args), 2, *words)


@pytest.mark.root
@pytest.mark.compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
def test_faults_on_real_interfaces() -> None:
    """The same packets are lost as in memory; delays and rates follow the real clock."""
    seen, _ = observe("softswitch_fault_session")
    assert seen == {
        "lost_as_foreseen": True,
        "delayed_in_order": True,
        "at_least_the_delay": True,
        "at_least_the_rate": True,
        "released_by_timer": True,
        "cut": True,
        "mended": True,
        "recirculated": True,
    }
