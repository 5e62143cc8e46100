"""Ports of a Tofino: device ports, names on the panel, and the hosts behind them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import finsy as fy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.artifacts import BUILD_DIR, SOURCE_DIR
from controller.inventory import Inventory
from controller.provision import network_entities
from controller.tables import Forward, Local
from controller.targets import find_target
from controller.targets.ports import (
    TOFINO,
    TOFINO2,
    Chip,
    PortMap,
    canonical,
    chip_with,
    pipe_of,
)
from host_stack.errors import BadInput


@given(st.sampled_from([TOFINO, TOFINO2]), st.integers(0, 3), st.integers(0, 127))
def test_a_device_port_is_pipe_and_port(chip: Chip, pipe: int, local: int) -> None:
    """Two bits and seven; 64 ports of a pipe can have a cable, and not the one that leads back."""
    port = pipe * 128 + local
    assert pipe_of(port) == pipe
    assert len(chip.panel) == 64 and chip.recirculation not in chip.panel
    if local in chip.panel:
        assert chip.check_front_panel(port) == port
    else:
        with pytest.raises(BadInput, match=f"is port {local} of pipe {pipe}"):
            chip.check_front_panel(port)


def test_recirculation_ports() -> None:
    """One leads back into each pipe."""
    assert [TOFINO.recirculation_port(pipe) for pipe in range(4)] == [68, 196, 324, 452]
    assert [TOFINO2.recirculation_port(pipe) for pipe in range(4)] == [6, 134, 262, 390]


def test_the_program_knows_the_recirculation_port_of_its_chip() -> None:
    """Its parser takes what comes in there for a lap; the controller sends laps there."""
    text = (SOURCE_DIR / "include" / "tna" / "config.p4").read_text()
    found = re.findall(r"^#define RECIRCULATION (\d+)$", text, re.MULTILINE)
    assert found == [str(TOFINO2.recirculation), str(TOFINO.recirculation)]


def test_a_chip_has_an_architecture() -> None:
    """That of the P4Info; others are refused, with those that are known."""
    assert [chip_with(name) for name in ("tna", "t2na")] == [TOFINO, TOFINO2]
    with pytest.raises(BadInput, match="architecture 'v1model': known are tna, t2na"):
        chip_with("v1model")


@pytest.mark.parametrize("port", [-1, 512, 1 << 32])
def test_ports_have_nine_bits(port: int) -> None:
    """Others are refused, with what is allowed."""
    with pytest.raises(BadInput, match="allowed are 0 to 511"):
        TOFINO.check_front_panel(port)


def test_a_port_map(tmp_path: Path) -> None:
    """Lane 0 may be left out of a name."""
    path = tmp_path / "ports.json"
    path.write_text('{"1/0": 128, "1/1": 129, "12/0": 32}')
    ports = PortMap.load(path)
    assert [ports.device_port(name) for name in ("1/0", "1", "1/1", "12")] == [128, 128, 129, 32]
    assert ports.name_of(129) == "1/1"
    with pytest.raises(BadInput, match="not on this switch's port map"):
        ports.name_of(5)
    with pytest.raises(BadInput, match="there are 1/0, 1/1, 12/0"):
        ports.device_port("2")


@pytest.mark.parametrize(
    ("ports", "why"),
    [
        ({"1": 128}, "write it as connector/lane, 1/0"),
        ({"01/0": 128}, "1/0"),
        ({"eth0": 128}, "as in 7/0"),
        ({"1/0": "128"}, "must be an integer"),
        ({"1/0": True}, "must be an integer"),
        ({"1/0": 600}, "allowed are 0 to 511"),
        ({"1/0": 4, "2/0": 4}, "same device port 4"),
    ],
)
def test_a_bad_port_map(ports: dict[str, int], why: str) -> None:
    """Each mistake has its words."""
    with pytest.raises(BadInput, match=why):
        PortMap(ports)


@given(st.text(max_size=8))
def test_names_are_checked(name: str) -> None:
    """Any text is a name in its one form, or an error."""
    try:
        assert canonical(canonical(name)) == canonical(name)
    except BadInput as error:
        assert "connector/lane" in str(error)


def inventory(target: str = "tofino-stratum", ports: str = '"1/0" = 128\n"2/0" = 136') -> Inventory:
    """An inventory of a Tofino with three hosts."""
    switch = f"""
schema = 1
[[switch]]
name = "s1"
address = "192.0.2.1:9339"
ip = "10.0.0.254"
mac = "02:00:00:00:00:fe"
target = "{target}"
program = "tofino"
[switch.ports]
{ports}
"""
    hosts = "".join(
        f"""
[[host]]
name = "h{number}"
ip = "10.0.0.{number}"
mac = "02:00:00:00:00:0{number}"
switch = "s1"
port = {port}
"""
        for number, port in ((1, '"1/0"'), (2, '"2"'), (3, 144))
    )
    return Inventory.parse(tomllib.loads(switch + hosts), Path())


def test_an_inventory_knows_ports_by_their_names() -> None:
    """Of a Tofino it names ports of the panel, or device ports."""
    found = inventory()
    assert [host.port for host in found.hosts] == [128, 136, 144]
    assert Inventory.parse(tomllib.loads(found.text()), Path()) == found


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ports": ""}, "not on this switch's port map"),
        ({"ports": '"1/0" = 68\n"2/0" = 136'}, "no cable leads there"),
        ({"target": "tofino"}, "unknown target"),
        ({"target": "tofino2-p4rt", "ports": '"1/0" = 6\n"2/0" = 8'}, "ports 8 to 71 of a pipe"),
        ({"ports": '"1/0" = 128\n"2/0" = 136\n"9/0" = 70'}, "port 70 of pipe 0"),
        ({"target": "soft", "ports": '"1/0" = 0\n"2/0" = 2'}, "soft allows 1 to 510"),
    ],
)
def test_an_inventory_refuses_ports_that_cannot_be(changes: dict[str, str], why: str) -> None:
    """Before anything is sent to the switch."""
    with pytest.raises(BadInput, match=why):
        inventory(**changes)


def test_every_target_checks_ports() -> None:
    """Ports of a v1model switch count from 1, device ports from 0."""
    find_target("tofino-p4rt").check_ports([0, 128])
    find_target("tofino2-p4rt").check_ports([71, 136])
    with pytest.raises(BadInput, match="port 0"):
        find_target("bmv2").check_ports([0])


def test_the_inventory_of_the_deployment_guide(tmp_path: Path) -> None:
    """What docs/deploy-tofino.md shows is what the controller reads."""
    guide = (Path(__file__).parent.parent / "docs" / "deploy-tofino.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    path = tmp_path / "lab.toml"
    path.write_text(example)
    inventory = Inventory.load(path)
    assert [host.port for host in inventory.hosts] == [128, 136, 144]
    switch = inventory.switch("tofino1")
    find_target(switch.target).check_job(1, len(inventory.hosts) - 1)
    # What it says that the controller tells of it.
    (entities,) = re.findall(r"switch tofino1: provisioned: (\d+) entities written", guide)
    forward = Forward(switch.mac, inventory.attachments(switch.name))
    schema = fy.P4Schema(BUILD_DIR / f"{switch.program}.p4info.txtpb")
    written = list(network_entities(schema, forward, Local(switch.ip)))
    assert len(written) == int(entities)
