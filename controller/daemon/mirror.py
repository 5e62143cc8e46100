"""What stands on a switch, read back and remembered, so that only differences are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import finsy as fy

from controller.provision import WRITE_BATCH
from controller.tables import DRAIN_SESSION, Entity

Message: TypeAlias = Any
"""A `p4.v1.Entity`, as finsy makes it."""

Key: TypeAlias = tuple[str, int, bytes]
"""Kind, number (of the table, group or session) and match."""

JOBS_TABLE = "LibraIngress.membership.jobs"
_TABLES = (
    "LibraIngress.forward.routes",
    "LibraIngress.forward.groups",
    "LibraIngress.locals",
    "LibraIngress.sources.sources",
    "LibraIngress.membership.members",
    "LibraIngress.laps",
    "LibraIngress.pipes",
    JOBS_TABLE,
)
_ALIGN = re.compile(r"LibraIngress\.align\d+\.exponents")


@dataclass
class Part:
    """Entities that belong together: those of the network, or of one job.

    Attributes:
        entities: by key.
        gate: (key, entity) without which none of the others takes effect; None if there is none.
            It is taken away before others change and written behind them, so that packets meet
            a job as a whole or not at all.
    """

    entities: Mapping[Key, Message]
    gate: tuple[Key, Message] | None = None


@dataclass
class Mirror:
    """The entities that the controller has on a switch, by key.

    Attributes:
        written: updates that were sent.
    """

    switch: fy.Switch
    reads_replication: bool = True
    written: int = 0
    _have: dict[Key, Message] = field(default_factory=dict)
    _is_blind: bool = False

    @property
    def p4info(self) -> fy.P4Schema:
        """Of the program that the switch runs."""
        return self.switch.p4info

    def part(self, entities: Iterable[Entity], gate: Entity | None = None) -> Part:
        """Entities as a part."""
        gates = {} if gate is None else self._encoded([gate])
        return Part(self._encoded(entities), next(iter(gates.items()), None))

    def epoch_of(self, job: int) -> int:
        """The epoch of a job that stands; 0 for none."""
        for key, message in self._have.items():
            if self._is_gate(key):
                entry: Any = fy.P4TableEntry.decode(message, self.p4info)
                if int(entry["job"]) == job:
                    return int(entry.action.args["epoch"])
        return 0

    def is_empty(self) -> bool:
        """Whether nothing is there."""
        return not self._have

    def _encoded(self, entities: Iterable[Entity]) -> dict[Key, Message]:
        """Entities as messages, by key."""
        messages = (_canonical(entity.encode(self.p4info)) for entity in entities)
        return {_key(message): message for message in messages}

    async def read(self) -> None:
        """Read back everything that the controller may have written."""
        wanted: list[Any] = [
            fy.P4TableEntry(table.name) for table in self.p4info.tables if _is_owned(table.name)
        ]
        if self.reads_replication:
            wanted += [fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry(DRAIN_SESSION)]
        self._have = {}
        self._is_blind = not self.reads_replication
        for each in wanted:  # one at a time: a call may take ten seconds, all together take longer
            found = self.switch.read(each)
            async for entity in found:  # type: ignore[attr-defined]  # finsy annotates a coroutine
                message = _canonical(entity.encode(self.p4info))
                self._have[_key(message)] = message

    def holds(self, part: Part) -> bool:
        """Whether all of a part stands as it should."""
        gate = [] if part.gate is None else [part.gate]
        return all(
            self._have.get(key) == message or (self._is_blind and _is_replication(message))
            for key, message in (*part.entities.items(), *gate)
        )

    async def become(self, parts: Sequence[Part]) -> None:
        """Write what is missing and delete what is not wanted; errors are those of finsy."""
        wanted = {key: message for part in parts for key, message in part.entities.items()}
        gates = dict(part.gate for part in parts if part.gate is not None)
        closed = [
            *(key for key in self._have if self._is_gate(key) and key not in gates),
            *(
                part.gate[0]
                for part in parts
                if part.gate is not None
                and part.gate[0] in self._have
                and not self.holds(Part(part.entities))
            ),
        ]
        await self._delete(closed)
        await self._delete([key for key in self._have if key not in wanted and key not in gates])
        await self._write(wanted)
        await self._write(gates)
        self._is_blind = False

    def _is_gate(self, key: Key) -> bool:
        return key[:2] == ("table", self.p4info.tables[JOBS_TABLE].id)

    async def _delete(self, keys: Iterable[Key]) -> None:
        doomed = [self._have[key] for key in keys]
        for batch in _batches(doomed):
            await self.switch.delete(batch)
            self.written += len(batch)
        for message in doomed:
            del self._have[_key(message)]

    async def _write(self, wanted: Mapping[Key, Message]) -> None:
        have = self._have
        missing = [message for key, message in wanted.items() if key not in have]
        changed = [
            message for key, message in wanted.items() if key in have and have[key] != message
        ]
        if self._is_blind:
            unseen = [message for message in missing if _is_replication(message)]
            await self.switch.delete(unseen, strict=False)
        for batch in _batches(missing):
            await self.switch.insert(batch)
            self.written += len(batch)
        for batch in _batches(changed):
            await self.switch.modify(batch)
            self.written += len(batch)
        have.update({_key(message): message for message in (*missing, *changed)})


def _is_owned(table: str) -> bool:
    """Whether the controller fills a table; others are the program's own."""
    return table in _TABLES or _ALIGN.fullmatch(table) is not None


def _canonical(message: Message) -> Message:
    """The same entity, its match fields and replicas in the order of their numbers."""
    if message.WhichOneof("entity") == "table_entry":
        message.table_entry.match.sort(key=lambda field: field.field_id)
    return message


def _is_replication(message: Message) -> bool:
    return bool(message.WhichOneof("entity") == "packet_replication_engine_entry")


def _key(message: Message) -> Key:
    """What tells an entity apart from others, whatever it says."""
    if not _is_replication(message):
        entry = message.table_entry
        match = b"".join(
            b"%d:%b" % (len(part), part)
            for part in (each.SerializeToString(deterministic=True) for each in entry.match)
        )
        return "table", entry.table_id, match
    engine = message.packet_replication_engine_entry
    if engine.WhichOneof("type") == "multicast_group_entry":
        return "group", engine.multicast_group_entry.multicast_group_id, b""
    return "session", engine.clone_session_entry.session_id, b""


def _batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    waiting = iter(messages)
    while batch := list(islice(waiting, WRITE_BATCH)):
        yield batch
