"""Finding the node of a running emulation."""

from pathlib import Path

import pytest

from mininet_topos.attach import choose_node, enter_argv, find_node
from mininet_topos.errors import BadTopology


def test_nodes_are_found_by_the_mark_of_their_shell(tmp_path: Path):
    """Only the shell that Mininet started counts, not who mentions its name."""
    commands = {
        "41": b"bash\0--norc\0-is\0mininet:w1\0",
        "42": b"bash\0--norc\0-is\0mininet:w10\0",
        "43": b"pgrep\0mininet:w1\0",
        "44": b"",
        "self": b"bash\0mininet:w1\0",
    }
    for pid, command in commands.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(command)
    (tmp_path / "45").mkdir()
    assert find_node("w1", tmp_path) == [41]


def test_one_node_is_chosen_or_the_choice_is_shown():
    """With two emulations the user says which."""
    assert choose_node("w0", None, [7]) == 7
    assert choose_node("w0", 9, [7, 9]) == 9
    with pytest.raises(BadTopology, match="2 nodes are named 'w0': choose one by --pid 7, 9"):
        choose_node("w0", None, [7, 9])
    with pytest.raises(BadTopology, match="choose one by --pid 7"):
        choose_node("w0", 8, [7])
    with pytest.raises(BadTopology, match="no running emulation has a node 'w0'"):
        choose_node("w0", 8, [])


def test_command_is_passed_as_it_is():
    """Words of the command are never options of nsenter."""
    assert enter_argv(7, ["tcpdump", "-n"])[-3:] == ["--", "tcpdump", "-n"]
