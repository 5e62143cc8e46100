"""A served switch that runs one of the compiled programs in tests/p4, and its ids by alias."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import Client

COLLECTIONS = (
    "tables",
    "actions",
    "action_profiles",
    "counters",
    "direct_counters",
    "meters",
    "direct_meters",
    "registers",
    "value_sets",
    "digests",
)


@dataclass(frozen=True)
class Served:
    """A server, its primary controller and the ids of the program's objects."""

    server: P4RuntimeServer
    client: Client
    ids: dict[str, int]

    @property
    def dataplane(self) -> DataPlane:
        """The running data plane."""
        assert self.server.dataplane is not None
        return self.server.dataplane

    def action(self, name: str, *params: bytes) -> p4r.Action:
        """An action with its parameters in order."""
        return p4r.Action(
            action_id=self.ids[name],
            params=[
                p4r.Action.Param(param_id=number, value=value)
                for number, value in enumerate(params, 1)
            ],
        )

    def read(self, **query: Any) -> list[Any]:
        """Read the entities of one kind."""
        (name,) = query
        return [getattr(entity, name) for entity in self.client.read(p4r.Entity(**query))]


def program_files(name: str) -> tuple[p4i.P4Info, bytes]:
    """Return P4Info and bmv2 JSON of tests/p4/NAME.p4."""
    path = Path(__file__).parent / "p4" / name
    info = path.with_suffix(".p4info.txtpb").read_text()
    return text_format.Parse(info, p4i.P4Info()), path.with_suffix(".json").read_bytes()


@contextmanager
def served(name: str, cache: Path) -> Iterator[Served]:
    """Serve tests/p4/NAME.p4 in memory, with a primary controller."""
    info, source = program_files(name)
    ids = {
        item.preamble.alias: item.preamble.id
        for collection in COLLECTIONS
        for item in getattr(info, collection)
    }
    with P4RuntimeServer("127.0.0.1:0", cache_dir=cache) as server:
        server.commit(info, source)
        with Client(server.address) as client:
            assert client.arbitrate().status.code == 0
            yield Served(server, client, ids)
