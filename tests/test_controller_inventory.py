"""The inventory: what is read, what is refused, and which way packets take."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.inventory import HostSpec, Inventory, LinkSpec, SwitchSpec
from host_stack.errors import BadInput

FILE = """
schema = 1

[[switch]]
name = "leaf1"
address = "127.0.0.1:9559"
ip = "10.0.1.254"
mac = "02:00:0a:00:01:fe"
rack = "r1"
control = "run/leaf1"

[[switch]]
name = "leaf2"
address = "127.0.0.1:9560"
device_id = 2
ip = "10.0.2.254"
mac = "02:00:0a:00:02:fe"
[switch.tls]
ca = "ca.pem"
name = "leaf2.example"

[[switch]]
name = "spine1"
address = "127.0.0.1:9561"
ip = "10.0.9.254"
mac = "02:00:0a:00:09:fe"

[[host]]
name = "ps0"
ip = "10.0.1.1"
mac = "02:00:0a:00:01:01"
switch = "leaf1"
port = 1

[[host]]
name = "w0"
ip = "10.0.2.1"
mac = "02:00:0a:00:02:01"
switch = "leaf2"
port = 1

[[link]]
ends = ["leaf1:10", "spine1:1"]

[[link]]
ends = ["leaf2:10", "spine1:2"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file."""
    found = tmp_path / "inventory.toml"
    found.write_text(FILE)
    return found


def test_a_file_is_read_and_written(path: Path, tmp_path: Path) -> None:
    """What is written is read again; files are found beside the inventory."""
    inventory = Inventory.load(path)
    tls = inventory.switch("leaf2").tls
    assert tls is not None
    assert (tls.ca, tls.name) == (tmp_path / "ca.pem", "leaf2.example")
    assert inventory.host_at("10.0.2.1").name == "w0"
    assert inventory.switch("leaf1").control == tmp_path / "run/leaf1"
    path.write_text(inventory.text())
    assert Inventory.load(path) == inventory


def test_packets_take_the_link(path: Path) -> None:
    """Of a host elsewhere a switch knows the port towards it, and who comes next."""
    inventory = Inventory.load(path)
    server, worker = inventory.attachments("leaf1")
    assert (server.port, server.mac) == (1, "02:00:0a:00:01:01")
    assert (worker.port, worker.mac) == (10, "02:00:0a:00:09:fe")
    assert [each.port for each in inventory.attachments("spine1")] == [1, 2]
    assert inventory.path("leaf1", "leaf2") == ["leaf1", "spine1", "leaf2"]
    others = {each.address: each.port for each in inventory.other_switches("leaf1")}
    assert others == {"10.0.2.254": 10, "10.0.9.254": 10}


def leaf_spine(leaves: int, spines: int) -> Inventory:
    """Every leaf linked to every spine, a host at each leaf."""
    names = [f"leaf{number}" for number in range(leaves)]
    tops = [f"spine{number}" for number in range(spines)]
    switches = tuple(
        SwitchSpec(name, f"127.0.0.1:{9000 + at}", f"10.9.0.{at + 1}", f"02:00:00:00:09:{at:02x}")
        for at, name in enumerate([*names, *tops])
    )
    hosts = tuple(
        HostSpec(f"h{at}", f"10.0.{at}.1", f"02:00:00:00:00:{at:02x}", name, 1)
        for at, name in enumerate(names)
    )
    links = tuple(
        LinkSpec((f"{leaf}:{10 + up}", f"{spine}:{1 + down}"))
        for down, leaf in enumerate(names)
        for up, spine in enumerate(tops)
    )
    return Inventory(switches, hosts, links)


@pytest.mark.parametrize(("leaves", "spines"), [(2, 1), (2, 2), (4, 3)])
def test_both_directions_take_one_path(leaves: int, spines: int) -> None:
    """So a switch can tell by the port whether an address is forged."""
    inventory = leaf_spine(leaves, spines)
    for one in inventory.switches:
        for other in inventory.switches:
            path = inventory.path(one.name, other.name)
            assert path[::-1] == inventory.path(other.name, one.name)
            assert len(path) <= 3
    used = {inventory.path("leaf0", f"leaf{other}")[1] for other in range(1, leaves)}
    assert len(used) == min(spines, leaves - 1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 2", "schema 2"),
        ("schema = 1", "schema = ", "not an inventory"),
        ("schema = 1", 'schema = 1\ncolour = "red"', "colour: known are host, link"),
        ("device_id = 2", 'program = "../x"', "is no name of one"),
        ("device_id = 2", "device_id = -1", "device_id -1"),
        ("device_id = 2", 'target = "hard"', "known are soft, bmv2"),
        ("device_id = 2", "colour = 2", "its fields are name, address"),
        ("device_id = 2", "control = 2", "control 2: it is a path"),
        ("device_id = 2", "rack = 2", "rack 2: allowed are 1 to 64 letters"),
        ("device_id = 2", "ports = 2", "ports 2: they are written"),
        ('ca = "ca.pem"', "ca = 5", "ca 5: it is a path"),
        ('name = "leaf1"', "name = [1]", r"name \[1\]: allowed are 1 to 64 letters"),
        ('switch = "leaf2"\nport = 1', 'switch = [1]\nport = "1/0"', "no|none"),
        ('["leaf2:10", "spine1:2"]', "5", "ends 5: they are a list of two"),
        ("schema = 1", "schema = " + "[" * 100_000, "not an inventory"),
        ('address = "127.0.0.1:9560"', 'address = "127.0.0.1"', "HOST:PORT"),
        (
            'address = "127.0.0.1:9560"',
            'address = "127.0.0.1:9559"',
            "9559 is there twice",
        ),
        ('ip = "10.0.2.1"', 'ip = "10.0.2.256"', "10.0.2.256"),
        ('ip = "10.0.2.1"', 'ip = "10.0.1.1"', "ip 10.0.1.1 is there twice"),
        ('mac = "02:00:0a:00:02:01"', 'mac = "2:0:a:0:2:1"', "six pairs"),
        ('name = "w0"', 'name = "w 0"', "allowed are 1 to 64 letters"),
        ('switch = "leaf2"', 'switch = "leaf3"', "leaf1, leaf2, spine1"),
        ('switch = "leaf2"\nport = 1', 'switch = "leaf2"\nport = 10', "leaf2:10 is there twice"),
        ('switch = "leaf2"\nport = 1', 'switch = "leaf2"\nport = 511', "allowed are 0 to 510"),
        ('["leaf2:10", "spine1:2"]', '["leaf2:10"]', "two ends"),
        ('[[link]]\nends = ["leaf2:10", "spine1:2"]', "", "no path of at most two links"),
        ("[[host]]", "[host]", "overwrite|not an inventory"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, words: str, path: Path) -> None:
    """Whatever a file holds, the error says where and what is allowed."""
    assert old in FILE
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(BadInput, match=words):
        Inventory.load(path)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(BadInput, match="nowhere"):
        Inventory.load(tmp_path / "nowhere.toml")
