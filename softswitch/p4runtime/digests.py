"""Digests: which are sent, the lists that they are sent in, and acknowledgements.

The specification's section "DigestEntry". The data plane remembers a message from when a packet
sends it until its list is acknowledged or too old: that keeps the same one from coming again, both
within a list and in a later one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from finsy.proto import p4d, p4r

from softswitch.dataplane import DataPlane
from softswitch.digests import Message
from softswitch.p4runtime import values
from softswitch.p4runtime.errors import already_exists, invalid, not_found
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_state import DigestField, DigestInfo

MAX_LIST = 1024
"""Messages of a list whose configuration has no limit."""

MAX_ROUNDS = 32
"""Most times that one poll empties the data plane's ring, so that lists leave in between."""


@dataclass
class _Active:
    """A digest that controllers enabled."""

    config: p4r.DigestEntry.Config
    buffer: list[Message] = field(default_factory=list)
    first_ns: int = 0
    unacknowledged: dict[int, tuple[int, list[Message]]] = field(default_factory=dict)
    """When each list was sent and what is in it, oldest first."""


class Digests:
    """The digests of one pipeline. Thread-safe. `clock` gives the time in nanoseconds."""

    def __init__(
        self,
        schema: Schema,
        dataplane: DataPlane,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._schema = schema
        self._queue = dataplane.digests
        self._by_name = {info.name: info for info in schema.digests.values()}
        self._clock = clock
        self._lock = threading.Lock()
        self._active: dict[int, _Active] = {}
        self._next_list_id = 1

    def write(self, kind: int, message: p4r.DigestEntry) -> None:
        """Enable a digest, change how it is sent, or disable it; raises P4RuntimeError."""
        info = self._schema.digest(message.digest_id)
        with self._lock:
            active = self._active.get(info.id)
            if kind == p4r.Update.INSERT:
                if active is not None:
                    raise already_exists(f"digest {info.name} is already there")
                self._active[info.id] = _Active(_config(info, message))
                self._queue.enable(info.name, True)
            elif active is None:
                raise not_found(f"digest {info.name} is not there: INSERT it")
            elif kind == p4r.Update.MODIFY:
                active.config = _config(info, message)
            else:
                del self._active[info.id]
                self._queue.enable(info.name, False)
        self._queue.wake()

    def read(self, query: p4r.DigestEntry) -> Iterator[p4r.Entity]:
        """Return the configurations that `query` selects; an id of 0 selects all."""
        if query.digest_id:
            self._schema.digest(query.digest_id)
        with self._lock:
            found = [
                p4r.DigestEntry(digest_id=digest_id, config=active.config)
                for digest_id, active in self._active.items()
                if query.digest_id in (0, digest_id)
            ]
        return (p4r.Entity(digest_entry=entry) for entry in found)

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """Let the messages of a list come again; raises P4RuntimeError for an unknown digest."""
        info = self._schema.digest(message.digest_id)
        with self._lock:
            active = self._active.get(info.id)
            # A list that is not known any more was too old: then nothing is left to do.
            if active is not None and message.list_id in active.unacknowledged:
                _, messages = active.unacknowledged.pop(message.list_id)
                self._queue.forget(info.name, messages)

    def poll(self) -> tuple[list[p4r.DigestList], int | None]:
        """Take what packets sent; return the lists that are due.

        Also returns in how many ns the next may be due, None if nothing is waiting.
        """
        lists: list[p4r.DigestList] = []
        with self._lock:
            for _ in range(MAX_ROUNDS):
                taken = self._queue.take()
                if not taken:
                    break
                for name, message in taken:
                    lists += self._add(self._by_name[name], message)
            deadlines = []
            for digest_id, active in self._active.items():
                info = self._schema.digests[digest_id]
                if active.buffer and self._clock() >= _flush_at(active):
                    lists.append(self._flush(info, active))
                self._expire(info, active)
                if active.buffer:
                    deadlines.append(_flush_at(active))
                deadlines += [
                    sent_ns + active.config.ack_timeout_ns
                    for sent_ns, _ in list(active.unacknowledged.values())[:1]
                ]
            left = None if not deadlines else max(min(deadlines) - self._clock(), 0)
        return lists, left

    def _add(self, info: DigestInfo, message: Message) -> Iterator[p4r.DigestList]:
        active = self._active.get(info.id)
        if active is None:  # it was sent before the digest was disabled
            return
        if not active.buffer:
            active.first_ns = self._clock()
        active.buffer.append(message)
        limit = active.config.max_list_size or MAX_LIST
        if len(active.buffer) >= min(limit, MAX_LIST) or not active.config.max_timeout_ns:
            yield self._flush(info, active)

    def _flush(self, info: DigestInfo, active: _Active) -> p4r.DigestList:
        messages, active.buffer = active.buffer, []
        list_id = self._next_list_id
        self._next_list_id += 1
        if active.config.ack_timeout_ns:
            active.unacknowledged[list_id] = self._clock(), messages
        else:
            self._queue.forget(info.name, messages)
        return p4r.DigestList(
            digest_id=info.id,
            list_id=list_id,
            data=[_to_wire(info, message) for message in messages],
            timestamp=time.time_ns(),
        )

    def _expire(self, info: DigestInfo, active: _Active) -> None:
        timeout_ns, now_ns = active.config.ack_timeout_ns, self._clock()
        for list_id, (sent_ns, messages) in list(active.unacknowledged.items()):
            if sent_ns + timeout_ns > now_ns:
                break
            del active.unacknowledged[list_id]
            self._queue.forget(info.name, messages)


def _flush_at(active: _Active) -> int:
    return active.first_ns + active.config.max_timeout_ns


def _config(info: DigestInfo, message: p4r.DigestEntry) -> p4r.DigestEntry.Config:
    config = message.config
    if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
        raise invalid(f"digest {info.name}: time-outs and sizes must not be negative")
    copy = p4r.DigestEntry.Config()
    copy.CopyFrom(config)
    return copy


def _to_wire(info: DigestInfo, message: Message) -> p4d.P4Data:
    members = [_value(field, value) for field, value in zip(info.fields, message, strict=True)]
    if info.shape == "struct":
        return p4d.P4Data(struct=p4d.P4StructLike(members=members))
    if info.shape == "tuple":
        return p4d.P4Data(tuple=p4d.P4StructLike(members=members))
    return members[0]


def _value(field: DigestField, value: int) -> p4d.P4Data:
    name = field.names[value] if value < len(field.names) else str(value)
    match field.kind:
        case "bool":
            return p4d.P4Data(bool=bool(value))
        case "error":
            return p4d.P4Data(error=name)
        case "enum":
            return p4d.P4Data(enum=name)
        case "serializable_enum":
            return p4d.P4Data(enum_value=field.wire.write(value))
        case "int":
            sign = 1 << (field.wire.width - 1)
            return p4d.P4Data(bitstring=values.encode_signed((value ^ sign) - sign))
    return p4d.P4Data(bitstring=field.wire.write(value))
