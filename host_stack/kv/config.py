"""Configuration of a node, from code or from ps-lite's environment variables."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from host_stack.kv.curve import JobKey
from host_stack.kv.errors import KVConfigError
from host_stack.kv.ids import Role

MAX_PER_ROLE = 2048
MAX_PORT = 65535
KEEP_KEYS_MIB = 256
MAX_KEEP_KEYS_MIB = 1 << 20
_LARGEST = 10**9 - 1
_WHOLE = re.compile(r"-?[0-9]{1,9}")

_NEEDED_S = ("start_timeout_s", "wait_timeout_s", "barrier_timeout_s", "send_timeout_s")
_OPTIONAL_S = ("linger_s", "heartbeat_interval_s", "heartbeat_timeout_s", "resend_timeout_s")
_COUNTS = ("num_workers", "num_servers", "customers", "queue_messages")
_SIZES = ("max_frame_bytes", "keep_keys_bytes")
_TYPES: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("role",), Role, "a Role"),
    (("root_host",), str, "a text"),
    (("node_host",), str | None, "a text or None"),
    (("root_port", "node_port", *_COUNTS, *_SIZES), Integral, "a whole number"),
    ((*_NEEDED_S, *_OPTIONAL_S), Real, "a number of seconds"),
    (("local", "keep_memory"), bool, "True or False"),
    (("key",), JobKey | None, "a JobKey or None"),
)
"""Names of fields, their type, and that type in words."""


@dataclass(frozen=True, slots=True)
class KVConfig:
    """Who a node is, where the scheduler is, and how long anything may take.

    `root_port` 0 lets a scheduler choose a free port; `node_port` 0 does so for the others.
    `node_host` is the address that peers connect to; None takes that of the route to the
    scheduler. Raises KVConfigError where a value is out of range or of another type.

    `customers` threads of a program register as so many nodes of one process (ps-lite's several
    customers): they count among `num_workers`, and share one id. `heartbeat_interval_s` and
    `heartbeat_timeout_s` are 0 for none; `resend_timeout_s` is 0 for no resender. All nodes of a
    job need the same of the latter, and of `local`, which uses Unix-domain sockets named
    /tmp/<port> instead of TCP; and of `key`, with which all connections are encrypted (CurveZMQ,
    which ps-lite itself does not speak). `keep_memory` is for large messages
    (`host_stack.kv.memory`), and concerns the whole process. `keep_keys_bytes` is how much a
    server may keep of the keys that workers use again; with 0 neither keeps keys, nor leaves them
    out.
    """

    role: Role
    root_host: str
    root_port: int
    num_workers: int
    num_servers: int
    node_host: str | None = None
    node_port: int = 0
    start_timeout_s: float = 60.0
    wait_timeout_s: float = 60.0
    barrier_timeout_s: float = 60.0
    send_timeout_s: float = 10.0
    linger_s: float = 2.0
    heartbeat_interval_s: float = 0.0
    heartbeat_timeout_s: float = 0.0
    resend_timeout_s: float = 0.0
    customers: int = 1
    local: bool = False
    key: JobKey | None = None
    max_frame_bytes: int = 256 << 20
    queue_messages: int = 1000
    keep_memory: bool = False
    keep_keys_bytes: int = 0

    def __post_init__(self) -> None:
        """Check every value that could come from a user."""
        _check_types(self)
        for name in ("num_workers", "num_servers"):
            _check_range(name, getattr(self, name), 1, MAX_PER_ROLE)
        _check_range("root_port", self.root_port, 0 if self.role is Role.SCHEDULER else 1, MAX_PORT)
        _check_range("node_port", self.node_port, 0, MAX_PORT)
        _check_range("max_frame_bytes", self.max_frame_bytes, 1 << 10, 1 << 40)
        _check_range("queue_messages", self.queue_messages, 1, 1 << 20)
        _check_range("keep_keys_bytes", self.keep_keys_bytes, 0, MAX_KEEP_KEYS_MIB << 20)
        for name in _NEEDED_S:
            if not 0 < getattr(self, name) < float("inf"):
                raise KVConfigError(f"{name} = {getattr(self, name)} must be positive and finite")
        for name in _OPTIONAL_S:
            if not 0 <= getattr(self, name) < float("inf"):
                raise KVConfigError(f"{name} = {getattr(self, name)} must be finite, 0 or more")
        _check_range("customers", self.customers, 1, self.num_workers)
        if self.customers > 1 and self.role is not Role.WORKER:
            raise KVConfigError(f"customers = {self.customers}: only workers have more than one")

    @property
    def tick_s(self) -> float | None:
        """How often heartbeats and what is to be sent again are looked after; None for never."""
        periods = self.heartbeat_interval_s, self.heartbeat_timeout_s, self.resend_timeout_s
        return min((seconds for seconds in periods if seconds), default=None)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "KVConfig":
        """Read the `DMLC_*` and `PS_*` variables of ps-lite (and `PORT`).

        Memory is kept unless `LIBRA_KEEP_MEMORY` is 0; `LIBRA_KEEP_KEYS` is in MiB, 256 if unset.
        Raises KVConfigError, which names the variable, where one is missing or out of range.
        """
        env = os.environ if environ is None else environ
        _refuse_unsupported(env)
        interface = env.get("DMLC_INTERFACE")
        host = env.get("DMLC_NODE_HOST") or (interface and address_of_interface(interface))
        role = _role(_required(env, "DMLC_ROLE"))
        lowest_port = 0 if role is Role.SCHEDULER else 1
        keep_keys_mib = _number_or(env, "LIBRA_KEEP_KEYS", KEEP_KEYS_MIB, 0, MAX_KEEP_KEYS_MIB)
        return cls(
            role=role,
            root_host=_required(env, "DMLC_PS_ROOT_URI"),
            root_port=_needed_number(env, "DMLC_PS_ROOT_PORT", lowest_port, MAX_PORT),
            num_workers=_needed_number(env, "DMLC_NUM_WORKER", 1, MAX_PER_ROLE),
            num_servers=_needed_number(env, "DMLC_NUM_SERVER", 1, MAX_PER_ROLE),
            node_host=host or None,
            node_port=_number_or(env, "PORT", 0, 0, MAX_PORT),
            heartbeat_interval_s=_number_or(env, "PS_HEARTBEAT_INTERVAL", 0, 0),
            heartbeat_timeout_s=_number_or(env, "PS_HEARTBEAT_TIMEOUT", 0, 0),
            resend_timeout_s=_resend_timeout_s(env),
            local=_number_or(env, "DMLC_LOCAL", 0) != 0,
            keep_memory=_number_or(env, "LIBRA_KEEP_MEMORY", 1) != 0,
            keep_keys_bytes=keep_keys_mib << 20,
        )


def _check_types(config: KVConfig) -> None:
    """Refuse what is of another type: "8000" is no port, True no number and 2.0 no count."""
    for names, allowed, what in _TYPES:
        for name in names:
            value = getattr(config, name)
            is_truth = isinstance(value, bool) and allowed is not bool
            if not isinstance(value, allowed) or is_truth:
                raise KVConfigError(f"{name} = {value!r:.40} must be {what}")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise KVConfigError(f"{name} = {value} is outside of {low} to {high}")


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise KVConfigError(f"the environment variable {name} is not set; every node needs it")
    return value


def _number(name: str, text: str, low: int, high: int) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise KVConfigError(f"{name} = {text!r:.40} is not a whole number of at most nine digits")
    _check_range(name, int(text), low, high)
    return int(text)


def _needed_number(env: Mapping[str, str], name: str, low: int, high: int) -> int:
    return _number(name, _required(env, name), low, high)


def _number_or(
    env: Mapping[str, str], name: str, default: int, low: int = -_LARGEST, high: int = _LARGEST
) -> int:
    return _number(name, env.get(name) or str(default), low, high)


def _resend_timeout_s(env: Mapping[str, str]) -> float:
    """Seconds until a message is sent again; 0 unless PS_RESEND is set."""
    timeout_ms = _number_or(env, "PS_RESEND_TIMEOUT", 1000)
    if not _number_or(env, "PS_RESEND", 0):
        return 0.0
    if timeout_ms <= 0:
        raise KVConfigError(f"PS_RESEND_TIMEOUT = {timeout_ms} must be 1 or more milliseconds")
    return timeout_ms / 1000


def _role(text: str) -> Role:
    try:
        return Role[text.upper()]
    except KeyError:
        raise KVConfigError(
            f"DMLC_ROLE = {text!r} is not one of scheduler, server, worker"
        ) from None


def _refuse_unsupported(env: Mapping[str, str]) -> None:
    """Refuse the transports of ps-lite that are not implemented here."""
    if env.get("DMLC_PS_VAN_TYPE", "zmq") != "zmq":
        raise KVConfigError(f"DMLC_PS_VAN_TYPE = {env['DMLC_PS_VAN_TYPE']}: only zmq is supported")


def address_of_interface(name: str) -> str:
    """IPv4 address of a network interface; raises KVConfigError if it has none."""
    import fcntl  # noqa: PLC0415 - exists on Unix alone, and only this function needs it
    import struct  # noqa: PLC0415

    siocgifaddr = 0x8915
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", name.encode()[:15])
            answer = fcntl.ioctl(probe.fileno(), siocgifaddr, request)
        except OSError as error:
            raise KVConfigError(
                f"DMLC_INTERFACE = {name!r} has no IPv4 address: {error.strerror}"
            ) from None
    return socket.inet_ntoa(answer[20:24])


def resolve(host: str) -> str:
    """IPv4 address of a host name."""
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise KVConfigError(f"host {host!r} cannot be resolved: {error}") from None


def local_path(port: int) -> str:
    """The Unix-domain socket that stands for a port of a job on one machine, as in ps-lite."""
    return f"/tmp/{port}"  # noqa: S108 - the protocol's name


def listens(host: str, port: int, timeout_s: float = 0.5, *, local: bool = False) -> bool:
    """Whether somebody takes connections at an address."""
    try:
        if local:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(local_path(port))
            return True
        socket.create_connection((resolve(host), port), timeout_s).close()
    except (OSError, KVConfigError):
        return False
    return True


def address_towards(host: str) -> str:
    """Own IPv4 address on the route to a host; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((resolve(host), 9))
        except OSError as error:
            raise KVConfigError(f"no route to {host}: {error.strerror}; set node_host") from None
        return str(probe.getsockname()[0])
