"""p4src/libra_tna.p4 as logic: its source, run by tests/p4_run.py, between ports and pipes.

What is of the chip and not of the program is here: packets that leave an ingress go to the egress
of their port, once for each copy of a multicast group, and a recirculation port leads back to the
ingress of its pipe; registers are those of a pipe; what ends before the parser does is dropped.
Stages, containers, memories and times are not modelled: they are the compiler's.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import finsy as fy
from finsy.proto import p4r

from controller.artifacts import BUILD_DIR, SOURCE_DIR, Artifact
from controller.provision import group_entities, job_entities, network_entities
from controller.tables import Attachment, Entity, Forward, Local, Membership
from controller.targets.ports import Chip
from host_stack.wire import REASONS_PER_SLOT, Reason
from tests.p4_parse import parse
from tests.p4_run import EXACT, Instance, Machine
from tests.p4_syntax import preprocess
from tests.p4_values import Packet
from tests.switch_under_test import SLOT, SWITCH, SwitchUnderTest

LANES = 16
NO_PORT = 0x1FF
MAX_PASSES = 5000
"""Of what one packet leads to; more is a loop."""

_BIT = {width: ("bit", ("number", width, None, False)) for width in (3, 9, 16)}
_ARCHITECTURE = {
    "ingress_intrinsic_metadata_t": [(_BIT[9], "ingress_port")],
    "ingress_intrinsic_metadata_from_parser_t": [],
    "ingress_intrinsic_metadata_for_deparser_t": [(_BIT[3], "drop_ctl")],
    "ingress_intrinsic_metadata_for_tm_t": [
        (_BIT[9], "ucast_egress_port"),
        (_BIT[16], "mcast_grp_a"),
    ],
    "egress_intrinsic_metadata_t": [(_BIT[9], "egress_port"), (_BIT[16], "egress_rid")],
    "egress_intrinsic_metadata_from_parser_t": [],
    "egress_intrinsic_metadata_for_deparser_t": [(_BIT[3], "drop_ctl")],
    "egress_intrinsic_metadata_for_output_port_t": [],
}
"""What the program uses of the intrinsic metadata of the chips."""


@dataclass
class TofinoModel:
    """A chip that runs the program of the sources."""

    chip: Chip
    seed: int = 1
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Ports and replication ids by the number of a multicast group."""

    def __post_init__(self) -> None:
        number = 2 if self.chip.name == "tofino2" else 1
        source = parse(preprocess(SOURCE_DIR / "libra_tna.p4", f"__TARGET_TOFINO__={number}"))
        source.types.update({name: ("struct", fields) for name, fields in _ARCHITECTURE.items()})
        source.consts["PORT_METADATA_SIZE"] = (_BIT[16], ("number", 0, None, False))
        self._machine = Machine(source, random.Random(self.seed))
        self.schema = fy.P4Schema(BUILD_DIR / f"{self.chip.name}.p4info.txtpb")
        self._pipes: dict[int, dict[str, Instance]] = {}

    # -- the control plane ----------------------------------------------------------------------

    def write(self, entities: Iterable[Entity]) -> None:
        """Insert what the controller writes."""
        for entity in entities:
            message = entity.encode(self.schema)
            if message.HasField("packet_replication_engine_entry"):
                group = message.packet_replication_engine_entry.multicast_group_entry
                self.groups[group.multicast_group_id] = [
                    (replica.egress_port, replica.instance) for replica in group.replicas
                ]
            else:
                self._write_entry(message.table_entry)

    def install(self, job: Membership, switch: str) -> None:
        """Write what the controller does for hosts, and for a job of theirs."""
        forward = Forward("02:00:0a:00:00:fe", [job.server, *job.workers])
        self.write(network_entities(self.schema, forward, Local(switch)))
        self.write(job_entities(self.schema, job, LANES))
        self.write(group_entities(self.schema, job.multicast()))
        self.write([job.job_entry()])

    def _write_entry(self, entry: p4r.TableEntry) -> None:
        table = self.schema.tables[entry.table_id]
        keys = []
        for match, its in zip(entry.match, table.match_fields, strict=True):
            if match.HasField("lpm"):
                mask = ((1 << match.lpm.prefix_len) - 1) << (its.bitwidth - match.lpm.prefix_len)
                keys.append((int.from_bytes(match.lpm.value, "big"), mask))
            else:
                keys.append((int.from_bytes(match.exact.value, "big"), EXACT))
        action = self.schema.actions[entry.action.action.action_id]
        params = [int.from_bytes(param.value, "big") for param in entry.action.action.params]
        written = self._machine.entries.setdefault(table.name, {})
        assert tuple(keys) not in written, f"{table.name} has {keys} already"
        written[tuple(keys)] = (action.name, params)

    def counters(self) -> Counter[int]:
        """`reasons`, over all pipes."""
        total: Counter[int] = Counter()
        for pipe in self._pipes.values():
            total.update(pipe["LibraIngress"].counters["reasons"])
        return total

    # -- the data plane -------------------------------------------------------------------------

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Send a packet into a port; return what comes out of ports with a cable."""
        waiting = deque([(port, packet)])
        out: list[tuple[int, bytes]] = []
        for _ in range(MAX_PASSES):
            if not waiting:
                return out
            for leaving, data in self._pass(*waiting.popleft()):
                if leaving % 128 == self.chip.recirculation_port(0):
                    waiting.append((leaving, data))
                else:
                    out.append((leaving, data))
        raise AssertionError("a packet goes round for ever")

    def _pass(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """One pass through ingress, replication and egress."""
        intrinsic = self._new("ingress_intrinsic_metadata_t")
        intrinsic.fields["ingress_port"] = port
        manager = self._new("ingress_intrinsic_metadata_for_tm_t")
        manager.fields["ucast_egress_port"] = NO_PORT
        kept = self._half("Ingress", port >> 7, data, ig_intr_md=intrinsic, ig_tm_md=manager)
        if kept is None:
            return []
        copies = list(self.groups.get(manager.fields["mcast_grp_a"], []))
        if manager.fields["ucast_egress_port"] != NO_PORT:
            copies.append((manager.fields["ucast_egress_port"], 0))
        out = []
        for leaving, copy in copies:
            intrinsic = self._new("egress_intrinsic_metadata_t")
            intrinsic.fields.update(egress_port=leaving, egress_rid=copy)
            sent = self._half("Egress", leaving >> 7, kept, eg_intr_md=intrinsic)
            if sent is not None:
                out.append((leaving, sent))
        return out

    def _half(self, gress: str, pipe: int, data: bytes, **given: Any) -> bytes | None:
        """Parser, control and deparser of a thread; None if the packet is dropped."""
        parts = self._pipe(pipe)
        low = gress.lower()
        short = "ig" if gress == "Ingress" else "eg"
        values: dict[str, Any] = {
            "packet": Packet(data),
            "hdr": self._new(f"{low}_headers_t"),
            "md": self._new(f"{low}_metadata_t"),
            f"{short}_prsr_md": self._new(f"{low}_intrinsic_metadata_from_parser_t"),
            f"{short}_dprsr_md": self._new(f"{low}_intrinsic_metadata_for_deparser_t"),
            "eg_oport_md": self._new("egress_intrinsic_metadata_for_output_port_t"),
            **given,
        }

        def run(name: str) -> None:
            params = [param for _, _, param in parts[name].block.params]
            parts[name].apply(**{param: values[param] for param in params})

        try:
            run(f"{gress}Parser")
        except EOFError:
            return None
        rest = data[values["packet"].at // 8 :]
        run(f"Libra{gress}")
        if values[f"{short}_dprsr_md"].fields["drop_ctl"] & 1:
            return None
        values["packet"] = Packet(b"")
        run(f"{gress}Deparser")
        made: bytes = values["packet"].data
        return made + rest

    def _pipe(self, number: int) -> dict[str, Instance]:
        if number not in self._pipes:
            self._pipes[number] = {
                name: Instance(self._machine, self._machine.source.blocks[name], name)
                for gress in ("Ingress", "Egress")
                for name in (f"{gress}Parser", f"Libra{gress}", f"{gress}Deparser")
            }
        return self._pipes[number]

    def _new(self, kind: str) -> Any:
        return self._machine.new(("name", kind))


@dataclass
class Cables:
    """Numbers of ports as tests have them, for device ports in several pipes."""

    model: TofinoModel
    device_ports: dict[int, int]

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Send a packet into a port; return what comes out."""
        back = {device: port for port, device in self.device_ports.items()}
        out = self.model.inject(self.device_ports[port], packet)
        return [(back[device], data) for device, data in out]


class TofinoUnderTest(SwitchUnderTest):
    """The model with a job, for tests that other switches pass."""

    @classmethod
    def make(cls, chip: Chip, device_ports: dict[int, int], fraction_bits: int) -> TofinoUnderTest:
        """A switch with the server at port 1 and workers at the others, and their job."""
        model = TofinoModel(chip)
        cables = Cables(model, device_ports)
        artifact = Artifact.load("libra16")
        switch = cls(cables, artifact, "", "", fraction_bits, len(device_ports) - 1)
        model.install(switch.membership(), SWITCH)
        return switch

    def host(self, port: int) -> Attachment:  # type: ignore[override]
        """The host behind a port."""
        assert isinstance(self.ports, Cables)
        device = self.ports.device_ports[port]
        return Attachment(f"10.0.0.{port}", f"02:00:0a:00:00:{port:02x}", device)

    def reasons(self, slot: int = SLOT) -> dict[str, int]:
        """The counters by reason."""
        assert isinstance(self.ports, Cables)
        counted = self.ports.model.counters()
        base = slot * REASONS_PER_SLOT
        return {reason.name.lower(): counted[base + reason] for reason in Reason}
