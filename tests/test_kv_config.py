"""Configuration from code and environment."""

import numpy as np
import pytest

from host_stack.kv.config import KVConfig, address_of_interface, address_towards, resolve
from host_stack.kv.errors import KVConfigError
from host_stack.kv.ids import Role

ENV = {
    "DMLC_ROLE": "worker",
    "DMLC_PS_ROOT_URI": "10.0.0.1",
    "DMLC_PS_ROOT_PORT": "8000",
    "DMLC_NUM_WORKER": "3",
    "DMLC_NUM_SERVER": "2",
}


def test_environment_is_read_as_by_ps_lite() -> None:
    """The variables of ps-lite give a complete configuration."""
    config = KVConfig.from_env(ENV | {"DMLC_NODE_HOST": "10.0.0.7", "PORT": "9000"})
    expected = KVConfig(
        *(Role.WORKER, "10.0.0.1", 8000, 3, 2, "10.0.0.7", 9000),
        keep_memory=True,
        keep_keys_bytes=256 << 20,
    )
    assert config == expected
    assert not KVConfig.from_env(ENV | {"LIBRA_KEEP_MEMORY": "0"}).keep_memory
    for mib in (0, 3):
        assert KVConfig.from_env(ENV | {"LIBRA_KEEP_KEYS": str(mib)}).keep_keys_bytes == mib << 20


def test_interface_gives_the_address() -> None:
    """DMLC_INTERFACE stands in for DMLC_NODE_HOST."""
    assert KVConfig.from_env(ENV | {"DMLC_INTERFACE": "lo"}).node_host == "127.0.0.1"
    with pytest.raises(KVConfigError, match="DMLC_INTERFACE"):
        address_of_interface("nosuch0")


def test_optional_variables_of_ps_lite() -> None:
    """Seconds, but for the resender's milliseconds."""
    config = KVConfig.from_env(
        ENV
        | {"PS_HEARTBEAT_INTERVAL": "2", "PS_HEARTBEAT_TIMEOUT": "7", "DMLC_LOCAL": "1"}
        | {"PS_RESEND": "1", "PS_RESEND_TIMEOUT": "250"}
    )
    assert (config.heartbeat_interval_s, config.heartbeat_timeout_s) == (2, 7)
    assert (config.resend_timeout_s, config.local) == (0.25, True)
    assert KVConfig.from_env(ENV | {"PS_RESEND": "1"}).resend_timeout_s == 1
    assert KVConfig.from_env(ENV | {"PS_RESEND_TIMEOUT": "250"}).resend_timeout_s == 0
    with pytest.raises(KVConfigError, match="PS_RESEND_TIMEOUT = 0"):
        KVConfig.from_env(ENV | {"PS_RESEND": "1", "PS_RESEND_TIMEOUT": "0"})


@pytest.mark.parametrize("name", ENV)
def test_missing_variables_are_named(name: str) -> None:
    """Each required variable is missed by name."""
    with pytest.raises(KVConfigError, match=name):
        KVConfig.from_env({key: value for key, value in ENV.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DMLC_ROLE", "boss"),
        ("DMLC_PS_ROOT_PORT", "many"),
        ("DMLC_PS_ROOT_PORT", "65536"),
        ("DMLC_PS_ROOT_PORT", "0"),
        ("DMLC_NUM_WORKER", "0"),
        ("DMLC_NUM_SERVER", "-1"),
        ("PORT", "-1"),
        ("DMLC_LOCAL", "yes"),
        ("PS_RESEND", "on"),
        ("PS_HEARTBEAT_INTERVAL", "-2"),
        ("PS_HEARTBEAT_TIMEOUT", "x"),
        ("LIBRA_KEEP_KEYS", "-1"),
        ("LIBRA_KEEP_KEYS", "1048577"),
        ("DMLC_PS_VAN_TYPE", "ibverbs"),
    ],
)
def test_bad_variables_are_refused(name: str, value: str) -> None:
    """The variable and what was given are in the message."""
    with pytest.raises(KVConfigError, match=f"^{name} = '?{value}"):
        KVConfig.from_env(ENV | {name: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"wait_timeout_s": 0},
        {"start_timeout_s": float("nan")},
        {"send_timeout_s": float("inf")},
        {"linger_s": -1},
        {"heartbeat_timeout_s": -1},
        {"resend_timeout_s": float("inf")},
        {"customers": 0},
        {"customers": 2},
        {"max_frame_bytes": 0},
        {"queue_messages": 0},
        {"keep_keys_bytes": -1},
    ],
)
def test_bad_limits_are_refused(changes: dict[str, float]) -> None:
    """Every wait has an end and every queue a bound."""
    with pytest.raises(KVConfigError, match=next(iter(changes))):
        KVConfig(Role.WORKER, "127.0.0.1", 8000, 1, 1, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"role": 2},
        {"root_host": None},
        {"node_host": 7},
        {"root_port": "8000"},
        {"root_port": True},
        {"node_port": 1.0},
        {"num_workers": 1.0},
        {"num_servers": True},
        {"customers": None},
        {"queue_messages": 10.5},
        {"keep_keys_bytes": "1"},
        {"start_timeout_s": "5"},
        {"linger_s": True},
        {"heartbeat_interval_s": None},
        {"local": 1},
        {"keep_memory": "no"},
        {"key": b"secret"},
    ],
)
def test_other_types_are_refused(changes: dict[str, object]) -> None:
    """By name, before anything is made of them."""
    ((name, value),) = changes.items()
    given = {"role": Role.WORKER, "root_host": "127.0.0.1", "root_port": 8000}
    given |= {"num_workers": 1, "num_servers": 1} | changes
    with pytest.raises(KVConfigError) as refused:
        KVConfig(**given)  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"{name} = {value!r} must be ")


def test_numbers_of_numpy_are_numbers() -> None:
    """Counts often come from arrays; seconds may be whole."""
    config = KVConfig(Role.WORKER, "127.0.0.1", 8000, np.int64(2), 1, linger_s=np.float32(1))  # type: ignore[arg-type]
    assert (config.num_workers, config.linger_s) == (2, 1.0)


def test_addresses_are_found_without_sending() -> None:
    """The way to the loopback address starts at the loopback address."""
    assert address_towards("127.0.0.1") == "127.0.0.1"
    with pytest.raises(KVConfigError, match="cannot be resolved"):
        resolve("no such host")


@pytest.mark.parametrize("text", ["9_700", "\u0663", "1" * 400, "1e3", " 7"])
def test_numbers_are_plain_and_short(text: str) -> None:
    """Nothing that only Python reads as a number, and nothing that is long."""
    with pytest.raises(KVConfigError, match=r"DMLC_PS_ROOT_PORT = .{1,45} is not a whole number"):
        KVConfig.from_env(ENV | {"DMLC_PS_ROOT_PORT": text})
