"""The knobs of a run."""

from __future__ import annotations

from typing import Any

import pytest

from host_stack.errors import BadInput
from mininet_topos.faults import FaultPlan
from mininet_topos.options import RunOptions, parse_link_rate


def test_the_defaults_are_allowed() -> None:
    """A run without any option."""
    assert RunOptions().modes == ("libra", "server-only", "fallback")


@pytest.mark.parametrize(
    "changed",
    [
        {"workers": 1},
        {"workers": 128},
        {"rounds": 2**30 - 2},
        {"hot": 0},
        {"sample": 1.0},
        {"fraction_bits": -64},
        {"fraction_bits": 126},
        {"checkpoint_every": 0},
        {"modes": ("fallback",)},
        {"link_mbps": 0.1},
        {"lanes": 64},
        {"seed": 0},
        {"servers": 15},
        {"servers": 2, "checkpoint_every": 1, "faults": FaultPlan.parse("kill=server2@r1")},
        {"servers": 2, "faults": FaultPlan.parse("cut=server@r1,kill=worker1@r1,kill=switch@r1")},
    ],
)
def test_the_limits_are_allowed(changed: dict[str, Any]) -> None:
    """The last value that is in."""
    RunOptions(**changed)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("target", "x", "soft, bmv2"),
        ("transport", "dpdk", "batch, scapy"),
        ("lanes", 48, "32, 64"),
        ("optimizer", "lamb", "adagrad, adam, momentum, sgd"),
        ("modes", (), "libra, server-only, fallback"),
        ("modes", ("libra", "magic"), "libra, server-only, fallback"),
        ("servers", 0, "1 to 15"),
        ("servers", 16, "1 to 15"),
        ("workers", 0, "1 to 128"),
        ("workers", -3, "1 to 128"),
        ("workers", 129, "1 to 128"),
        ("rounds", 0, "1 to 1073741822"),
        ("rounds", 2**30 - 1, "1 to 1073741822"),
        ("batch", 0, "1 to 1048576"),
        ("seed", -1, "0 to 9007199254740991"),
        ("seed", 2**53, "0 to 9007199254740991"),
        ("evaluate_every", 0, "1 to 1073741822"),
        ("checkpoint_every", -1, "0 to 1073741822"),
        ("hot", -1, "0 to"),
        ("fraction_bits", -65, "-64 to 126"),
        ("fraction_bits", 127, "-64 to 126"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "above 0"),
        ("learning_rate", float("inf"), "above 0"),
        ("sample", 0.0, "above 0, up to 1"),
        ("sample", 1.5, "above 0, up to 1"),
        ("sample", float("nan"), "above 0, up to 1"),
        ("link_mbps", 0.0, "0.1"),
        ("link_mbps", -5.0, "0.1"),
        ("link_mbps", float("nan"), "0.1"),
        ("link_mbps", float("inf"), "100"),
    ],
)
def test_bad_values(name: str, value: object, allowed: str) -> None:
    """Each is refused with the value and with what is allowed, before anything starts."""
    with pytest.raises(BadInput) as caught:
        RunOptions(**{name: value})  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert allowed in message
    given = value[-1:] if isinstance(value, tuple) else (value,)
    for each in given:
        shown = f"{each:g}" if isinstance(each, float) else str(each)
        assert shown in message


def test_links_may_have_rates_of_their_own() -> None:
    """By the names of processes, as they are given and recorded; hosts have others."""
    options = RunOptions(workers=3, link_mbps=20.0, link_rates=dict([parse_link_rate("worker2=5")]))
    assert options.links_mbps == {"server": 20, "worker1": 20, "worker2": 5, "worker3": 20}
    assert options.network.rates_mbps == {"ps0": 20, "w0": 20, "w1": 5, "w2": 20}
    sharded = RunOptions(workers=1, servers=2, link_mbps=20.0, link_rates={"server2": 5.0})
    assert sharded.network.rates_mbps == {"ps0": 20, "ps1": 5, "w0": 20}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("worker2", "NAME=MBPS is needed"),
        ("worker2=fast", "NAME=MBPS is needed"),
        ("worker2=nan", "link rate nan"),
        ("worker4=5", "unknown link 'worker4'; known are server, worker1"),
        ("server=0", "link rate 0"),
    ],
)
def test_bad_rates_of_links(given: str, message: str) -> None:
    """What is given, and what is allowed."""
    with pytest.raises(BadInput, match=message):
        RunOptions(workers=3, link_rates=dict([parse_link_rate(given)]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"consistency": "ssp:2"}, "ssp:2: with several servers it is bsp"),
        ({"transport": "scapy"}, "scapy: with several servers it is batch"),
        ({"backup_path": True}, "one server"),
        ({"faults": FaultPlan.parse("kill=ps1@r3")}, "server2@r3.*--checkpoint-every 1"),
        ({"faults": FaultPlan.parse("cut=server3@r3")}, "allowed are .*server2"),
    ],
)
def test_what_several_servers_cannot_do(changed: dict[str, Any], message: str) -> None:
    """It is refused by name, and the error says what can be done."""
    with pytest.raises(BadInput, match=message):
        RunOptions(servers=2, **changed)
