"""The star: its plan, and the real thing over a kernel bridge and over the embedded switch."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mininet_topos import nodes
from mininet_topos.errors import BadTopology, MissingTool, NotIsolated, ProcessDied
from mininet_topos.links import Direction, difference
from mininet_topos.processes import tcp_probe
from mininet_topos.star import StarNetwork, StarTopology
from mininet_topos.tools import NETWORK_TOOLS, run_tool
from mininet_topos.topology import HOSTS_MAX, HostSpec
from tests.isolation import isolated

DEADLINE_S = 60.0
PAYLOAD_BYTES = 1000
FRAME_BYTES = PAYLOAD_BYTES + 8 + 20 + 14  # with UDP, IPv4 and Ethernet headers
SAY = "import json, socket, sys\ndef say(**event): print(json.dumps(event), flush=True)\n"
# Reports each datagram; joins a multicast group when one is given.
RECEIVE = SAY + (
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "s.bind(('', 5000))\n"
    "if len(sys.argv) > 1:\n"
    "    member = socket.inet_aton(sys.argv[1]) + socket.inet_aton('0.0.0.0')\n"
    "    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)\n"
    "say(event='ready')\n"
    "while True:\n"
    "    data, peer = s.recvfrom(2000)\n"
    "    say(event='got', size=len(data), peer=peer[0])\n"
)
SEND = SAY + (
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    f"for _ in range(int(sys.argv[2])): s.sendto(bytes({PAYLOAD_BYTES}), (sys.argv[1], 5000))\n"
    "say(event='sent')\n"
)
# A switch in a few lines: forwards by destination MAC among the ports given as `-i PORT@NAME`.
STAND_IN = SAY + (
    "import select\n"
    "names = [a.split('@')[1] for a in sys.argv if '@' in a]\n"
    "ports = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in names]\n"
    "for port, name in zip(ports, names): port.bind((name, 3))\n"
    "table = {bytes([2, 0, 10, 0, 0, n]): port for n, port in enumerate(ports, start=1)}\n"
    "say(event='ready')\n"
    "while True:\n"
    "    for port in select.select(ports, [], [])[0]:\n"
    "        frame, address = port.recvfrom(2048)\n"
    "        if address[2] != socket.PACKET_OUTGOING and frame[:6] in table:\n"
    "            table[frame[:6]].send(frame)\n"
)


def python(script: str, *arguments: str) -> list[str]:
    """Return the command line of a script."""
    return [sys.executable, "-c", script, *arguments]


def deliver(net: StarNetwork, sender: str, receiver: str) -> tuple[int, str]:
    """Send one datagram between hosts; returns its size and the sender's address."""
    address = next(spec.ip for spec in net.topology.hosts if spec.name == receiver)
    receiving = net.start(receiver, python(RECEIVE))
    receiving.wait_event("ready", DEADLINE_S)
    sending = net.start(sender, python(SEND, address, "1"))
    got = receiving.wait_event("got", DEADLINE_S).fields
    assert sending.wait_exit(DEADLINE_S) == 0
    receiving.stop()
    return got["size"], got["peer"]


def residents() -> dict[str, str]:
    """Map process to command line, of this process namespace, zombies left out."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
        except OSError:
            continue
        if command:
            found[directory.name] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def test_servers_come_first_and_addresses_follow_the_ports():
    """Port 1 is the server; the last byte of IP and MAC is the port."""
    star = StarTopology(workers=2, servers=1)
    assert star.hosts == (
        HostSpec("ps0", "server", 0, 1, "10.0.0.1", "02:00:0a:00:00:01"),
        HostSpec("w0", "worker", 0, 2, "10.0.0.2", "02:00:0a:00:00:02"),
        HostSpec("w1", "worker", 1, 3, "10.0.0.3", "02:00:0a:00:00:03"),
    )
    assert (star.switch_ip, star.switch_mac) == ("10.0.0.254", "02:00:0a:00:00:fe")
    assert star.server_hosts + star.worker_hosts == star.hosts


@settings(derandomize=True)
@given(workers=st.integers(1, HOSTS_MAX - 1), servers=st.integers(1, 8))
def test_nothing_is_named_twice(workers: int, servers: int):
    """Names, addresses and ports are unique, and interface names fit the kernel's 15 bytes."""
    if workers + servers > HOSTS_MAX:
        return
    star = StarTopology(workers, servers)
    for field in ("name", "port", "ip", "mac"):
        assert len({getattr(host, field) for host in star.hosts}) == workers + servers
    assert all(len(f"{host.name}-eth0") <= 15 for host in star.hosts)
    assert star.switch_ip not in {host.ip for host in star.hosts}
    assert len(star.neighbours(star.hosts[0])) == workers + servers


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"workers": 0}, "0 workers and 1 servers"),
        ({"servers": 0}, "at least one of each"),
        ({"workers": HOSTS_MAX}, "250 hosts together"),
        ({"target": "tofino"}, "target 'tofino': allowed are 'soft', 'bmv2', 'bridge'"),
        ({"rate_mbps": -1}, "link rate -1"),
        ({"rate_mbps": 10, "rates_mbps": {"w0": 0}}, "link rate 0"),
        ({"rate_mbps": 10, "rates_mbps": {"w9": 1}}, "rates of links of w9"),
        ({"rates_mbps": {"w0": 1}}, "a rate of all other links"),
        ({"rate_mbps": 10, "queue_ms": 0}, "link queue 0"),
    ],
)
def test_bad_plan_is_refused_with_what_is_allowed(values: dict, match: str):
    """Before anything is built."""
    with pytest.raises(BadTopology, match=match):
        StarTopology(**values)


def test_network_outside_of_an_emulation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The machine's own network is never touched."""
    monkeypatch.delenv("LIBRA_EMULATION", raising=False)
    with pytest.raises(NotIsolated), StarNetwork(StarTopology(), tmp_path):
        pass


@isolated
def test_hosts_reach_each_other_and_nothing_else_travels(tmp_path: Path):
    """One datagram is one frame on each of two links: no ARP, no IPv6, no other noise."""
    with StarNetwork(StarTopology(workers=3, target="bridge"), tmp_path) as net:
        before = net.snapshot()
        assert deliver(net, "w0", "ps0") == (PAYLOAD_BYTES, "10.0.0.2")
        passed = difference(net.snapshot(), before)
        assert passed["w0"].to_switch == Direction(packets=1, bytes=FRAME_BYTES, drops=0)
        assert passed["ps0"].to_host == passed["w0"].to_switch
        quiet = [passed["w0"].to_host, passed["ps0"].to_switch]
        quiet += [way for name in ("w1", "w2") for way in vars(passed[name]).values()]
        assert {way.packets for way in quiet} == {0}
        with pytest.raises(BadTopology, match="host 'w9': there are ps0, w0, w1, w2"):
            net.host("w9")


@isolated
def test_multicast_reaches_every_member(tmp_path: Path):
    """A group's route exists in each host, and the switch copies."""
    with StarNetwork(StarTopology(workers=2, target="bridge"), tmp_path) as net:
        members = [net.start(name, python(RECEIVE, "239.1.2.3")) for name in ("w0", "w1")]
        for member in members:
            member.wait_event("ready", DEADLINE_S)
        net.start("ps0", python(SEND, "239.1.2.3", "1"))
        for member in members:
            assert member.wait_event("got", DEADLINE_S).fields["peer"] == "10.0.0.1"


@isolated
def test_hosts_have_no_offloads_and_the_same_mtu(tmp_path: Path):
    """A switch over packet sockets sees the frames that a wire would carry."""
    with StarNetwork(StarTopology(workers=1, target="bridge"), tmp_path) as net:
        features = net.host("w0").run("ethtool", "-k", "w0-eth0")
        for name in ("tx-checksumming", "tcp-segmentation-offload", "generic-receive-offload"):
            assert f"{name}: off" in features
        assert "mtu 1500" in net.host("w0").run("ip", "link", "show", "w0-eth0")
        assert "inet6" not in net.host("w0").run("ip", "addr")


@isolated
def test_a_link_may_have_a_rate_of_its_own(tmp_path: Path):
    """At both ends of it, and of no other link."""
    star = StarTopology(workers=2, target="bridge", rate_mbps=8, rates_mbps={"w1": 2.5})
    with StarNetwork(star, tmp_path) as net:
        at_hosts = {
            name: net.host(name).run("tc", "qdisc", "show", "dev", f"{name}-eth0")
            for name in ("ps0", "w0", "w1")
        }
        at_switch = run_tool(["tc", "qdisc", "show"])
    assert "rate 8Mbit" in at_hosts["ps0"] and "rate 8Mbit" in at_hosts["w0"]
    assert "rate 2500Kbit" in at_hosts["w1"]
    assert [line.count("rate 2500Kbit") for line in at_switch.splitlines() if "tbf" in line] == (
        [0, 0, 1]
    )


@isolated
def test_rate_bounds_what_passes_and_full_queues_drop(tmp_path: Path):
    """More than bucket and queue hold is sent at once: the excess is dropped and counted."""
    star = StarTopology(workers=2, target="bridge", rate_mbps=8, queue_ms=50)
    assert star.shape is not None
    with StarNetwork(star, tmp_path) as net:
        before = net.snapshot()
        senders = [net.start(name, python(SEND, "10.0.0.1", "20000")) for name in ("w0", "w1")]
        for sender in senders:
            assert sender.wait_exit(DEADLINE_S) == 0
        passed = difference(net.snapshot(), before)
        for name in ("w0", "w1"):
            assert passed[name].to_switch.drops > 0
            assert 0 < passed[name].to_switch.packets < 20000
        shown = net.host("w0").run("tc", "qdisc", "show", "dev", "w0-eth0")
        assert "tbf" in shown and "rate 8Mbit" in shown
        both = passed["w0"].to_switch.packets + passed["w1"].to_switch.packets
        assert passed["ps0"].to_host.packets + passed["ps0"].to_host.drops <= both


@isolated
def test_links_are_quiet_when_nobody_sends(tmp_path: Path):
    """While somebody does they are not."""
    endless = SEND.replace("range(int(sys.argv[2]))", "iter(int, 1)")
    with StarNetwork(StarTopology(workers=2, target="bridge", rate_mbps=8), tmp_path) as net:
        assert net.is_quiet(0.0)
        sender = net.start("w0", python(endless, "10.0.0.1"))
        sender.wait_until(lambda: not net.is_quiet(0.1), "traffic", DEADLINE_S)
        sender.stop()
        assert any(net.is_quiet(0.1) for _ in range(int(10 * DEADLINE_S)))


@isolated
def test_error_inside_takes_everything_down(tmp_path: Path):
    """No process and no interface stays, and a second network can be built at once."""
    before = residents()
    for _ in range(2):
        with (
            pytest.raises(ZeroDivisionError),
            StarNetwork(StarTopology(workers=2, target="bridge"), tmp_path) as net,
        ):
            net.start("w0", python(RECEIVE)).wait_event("ready", DEADLINE_S)
            raise ZeroDivisionError
        assert os.listdir("/sys/class/net") == ["lo"]
        assert residents() == before


@isolated
def test_interrupt_during_a_mininet_command_takes_everything_down(tmp_path: Path):
    """A node's shell that was left in the middle of a command does not stop the teardown."""
    before = residents()
    with (
        pytest.raises(KeyboardInterrupt),
        StarNetwork(StarTopology(workers=1, target="bridge"), tmp_path) as net,
    ):
        net.host("w0").sendCmd("sleep 1000")
        raise KeyboardInterrupt
    assert os.listdir("/sys/class/net") == ["lo"]
    left = {pid: command for pid, command in residents().items() if pid not in before}
    assert not [command for command in left.values() if "mininet:" in command]


@isolated
def test_failed_build_takes_everything_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A switch that dies while it starts is named with its log, and nothing stays."""
    monkeypatch.setattr(
        nodes, "softswitch_argv", lambda *_: python("import sys; sys.exit('no such port')")
    )
    before = residents()
    with (
        pytest.raises(ProcessDied, match=r"s1 ended with exit code 1 (?s:.*)no such port"),
        StarNetwork(StarTopology(workers=1), tmp_path),
    ):
        pass
    assert os.listdir("/sys/class/net") == ["lo"]
    assert residents() == before


@isolated
def test_crashed_switch_is_started_again_on_the_same_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """While it is dead nothing passes; afterwards everything does."""
    monkeypatch.setattr(
        nodes,
        "softswitch_argv",
        lambda _grpc, _device, ports: python(STAND_IN, *(f"{p}@{ports[p]}" for p in sorted(ports))),
    )
    with StarNetwork(StarTopology(workers=1), tmp_path) as net:
        assert deliver(net, "w0", "ps0") == (PAYLOAD_BYTES, "10.0.0.2")
        net.switch.kill()
        assert net.switch.process.returncode == -signal.SIGKILL
        net.processes.check()  # the crash was asked for
        before = net.snapshot()
        assert net.start("w0", python(SEND, "10.0.0.1", "3")).wait_exit(DEADLINE_S) == 0
        passed = difference(net.snapshot(), before)
        assert (passed["w0"].to_switch.packets, passed["ps0"].to_host.packets) == (3, 0)
        net.switch.start()
        assert deliver(net, "w0", "ps0") == (PAYLOAD_BYTES, "10.0.0.2")


@pytest.mark.skipif(
    importlib.util.find_spec("softswitch") is None
    or importlib.util.find_spec("softswitch.cli") is None,
    reason="the embedded switch is not installed",
)
@isolated
def test_embedded_switch_serves_and_comes_back_after_a_crash(tmp_path: Path):
    """It says when it is ready, with a port for each host."""
    with StarNetwork(StarTopology(workers=2), tmp_path) as net:
        for _ in range(2):
            assert tcp_probe("127.0.0.1", net.switch.grpc_port)()
            net.switch.kill()
            assert not tcp_probe("127.0.0.1", net.switch.grpc_port)()
            net.switch.start()


@pytest.mark.bmv2
@pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="bmv2 is not installed")
@isolated
def test_bmv2_serves_and_comes_back_after_a_crash(tmp_path: Path):
    """Its gRPC port is probed."""
    with StarNetwork(StarTopology(workers=2, target="bmv2"), tmp_path) as net:
        net.switch.kill()
        net.switch.start()
        assert tcp_probe("127.0.0.1", net.switch.grpc_port)()


@isolated
def test_missing_bmv2_says_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And nothing stays behind."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in (*NETWORK_TOOLS, "bash", "env", "grep", "stty", "which"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    with (
        pytest.raises(MissingTool, match="package p4lang-bmv2"),
        StarNetwork(StarTopology(workers=1, target="bmv2"), tmp_path),
    ):
        pass
    assert os.listdir("/sys/class/net") == ["lo"]


@isolated
def test_two_emulations_do_not_collide(tmp_path: Path):
    """The same star runs inside of an emulation and inside of another one below it."""
    script = (
        "import sys, os\n"
        "from pathlib import Path\n"
        "from mininet_topos.namespace import enter_isolated\n"
        "from mininet_topos.star import StarNetwork, StarTopology\n"
        "enter_isolated()\n"
        "with StarNetwork(StarTopology(workers=1, target='bridge'), Path(sys.argv[1])):\n"
        "    print('up', flush=True); input()\n"
        "print('down', flush=True)\n"
    )
    outside = {name: word for name, word in os.environ.items() if name != "LIBRA_EMULATION"}
    runs = [
        subprocess.Popen(
            python(script, str(tmp_path / name)),
            env=outside,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c")
    ]
    for run in runs:
        assert run.stdout is not None
        assert run.stdout.readline() == "up\n"
    runs[0].kill()  # a crash of one is none of the others' business
    for run in runs[1:]:
        assert run.communicate("\n", timeout=DEADLINE_S)[0] == "down\n"
        assert run.returncode == 0
    runs[0].communicate()
    assert os.listdir("/sys/class/net") == ["lo"]
