"""softswitch.stf.commands: what is wrong with a command is said, and changes nothing."""

from pathlib import Path

import pytest

from softswitch.dataplane import DataPlane
from softswitch.errors import SoftSwitchError
from softswitch.stf.commands import Commands
from softswitch.stf.grammar import Command, parse

PROGRAM = Path(__file__).parent / "conformance" / "programs" / "action_profiles.json"
WRONG = [
    ("mc_fly 1", "no command 'mc_fly'"),
    ("mc_mgrp_create", "takes GROUP"),
    ("mc_mgrp_create x", "'x' is no number"),
    ("mc_node_associate 1 0", "no multicast node 0"),
    ("mc_node_update 3 1", "no multicast node 3"),
    ("mc_mgrp_destroy 4", "no multicast group 4"),
    ("mirroring_get 5", "no clone session 5"),
    ("mirroring_add 5 70000000000", "out of range"),
    ("counter_read c 0", "no counter 'c'"),
    ("register_write r 0 1", "no register 'r'"),
    ("meter_set_rates m 0 1:1 2:2", "no meter 'm'"),
    ("pvs_add v 1", "no value set 'v'"),
    ("act_prof_create_member nobody set_plain 1", "no action profile 'nobody'"),
    ("act_prof_create_member members fly 1", "no action 'fly'"),
    ("act_prof_create_member members set_plain 300", "does not fit 8 bits"),
    ("act_prof_add_member_to_group groups 0 0", "no group 0"),
    ("table_indirect_add direct 1", "takes TABLE KEY"),
    ("table_indirect_add direct 1 2 3", "takes 1 key fields, => and a handle"),
    ("table_indirect_add direct 0x100 => 0", "does not fit 8 bits"),
    ("table_indirect_add direct 1 => 7", "no member 7"),
]


@pytest.mark.compiler
def test_wrong_commands_are_named(tmp_path: Path) -> None:
    """Number of words, numbers, objects of the program and of the test."""
    with DataPlane.load(PROGRAM.read_bytes(), cache_dir=tmp_path) as switch:
        commands = Commands(switch)
        for text, message in WRONG:
            [command] = parse(text)
            assert isinstance(command, Command)
            with pytest.raises(SoftSwitchError, match=message):
                commands.run(command)
        assert switch.mcast_groups() == switch.clone_sessions() == {}
        assert all(not switch.table_entries(name) for name in switch.program.tables)


@pytest.mark.compiler
def test_groups_follow_their_nodes(tmp_path: Path) -> None:
    """A clone session to a group has the group's replicas, whatever comes first."""
    with DataPlane.load(PROGRAM.read_bytes(), cache_dir=tmp_path) as switch:
        commands = Commands(switch)

        def run(text: str) -> None:
            for command in parse(text):
                assert isinstance(command, Command)
                commands.run(command)

        run("mirroring_add_mc 5 1\nmc_mgrp_create 1\nmc_node_create 9 4 3\nmc_node_associate 1 0")
        assert switch.mcast_groups() == {1: ((3, 9), (4, 9))}
        assert switch.clone_sessions()[5].replicas == ((3, 9), (4, 9))
        run("mc_node_update 0 7")
        assert switch.clone_sessions()[5].replicas == ((7, 9),)
        run("mc_node_create 8 1\nmc_node_associate 1 1\nmc_node_destroy 0")
        assert switch.mcast_groups() == {1: ((1, 8),)}
        run("mc_mgrp_destroy 1")
        assert switch.mcast_groups() == {}
        assert switch.clone_sessions()[5].replicas == ()
        run("mirroring_delete 5")
        assert switch.clone_sessions() == {}
