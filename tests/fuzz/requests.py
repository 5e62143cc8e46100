"""Valid P4Runtime requests for any program, made from its P4Info: what `messages` mutates."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import U128, p4d, p4i, p4r
from google.protobuf.message import Message

from tests.p4rt_support import delete, insert, modify

ELECTION_ID = U128.encode(1)
CELL = p4r.Index(index=0)
METER = p4r.MeterConfig(cir=1000, cburst=100, pir=2000, pburst=200)
COUNT = p4r.CounterData(packet_count=1, byte_count=2)


def requests(info: p4i.P4Info, device_config: bytes) -> list[Message]:
    """Return requests of each kind for a program."""
    found: list[Message] = []
    for entity in entities(info):
        kind = str(entity.WhichOneof("entity"))
        for make in (insert, modify, delete):
            updates = [make(**{kind: getattr(entity, kind)})]
            found.append(p4r.WriteRequest(device_id=1, election_id=ELECTION_ID, updates=updates))
        wildcard = p4r.Entity()
        getattr(wildcard, kind).SetInParent()
        found.append(p4r.ReadRequest(device_id=1, entities=[entity, wildcard]))
    updates = [
        insert(table_entry=e.table_entry) for e in entities(info) if e.HasField("table_entry")
    ]
    for atomicity in p4r.WriteRequest.Atomicity.values():
        found.append(
            p4r.WriteRequest(
                device_id=1, election_id=ELECTION_ID, updates=updates, atomicity=atomicity
            )
        )
    found.append(p4r.CapabilitiesRequest())
    found.append(p4r.GetForwardingPipelineConfigRequest(device_id=1))
    found += stream_messages(info)
    set_config = p4r.SetForwardingPipelineConfigRequest
    config = p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=device_config)
    for verb in (set_config.VERIFY, set_config.VERIFY_AND_SAVE, set_config.RECONCILE_AND_COMMIT):
        found.append(set_config(device_id=1, election_id=ELECTION_ID, action=verb, config=config))
    return found


def stream_messages(info: p4i.P4Info) -> list[Message]:
    """Return a message of each kind that a controller sends on its stream."""
    arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(0))
    messages = [p4r.StreamMessageRequest(arbitration=arbitration)]
    for header in info.controller_packet_metadata:
        metadata = [p4r.PacketMetadata(metadata_id=m.id, value=b"\1") for m in header.metadata]
        packet = p4r.PacketOut(payload=bytes(60), metadata=metadata)
        messages.append(p4r.StreamMessageRequest(packet=packet))
    for digest in info.digests:
        ack = p4r.DigestListAck(digest_id=digest.preamble.id, list_id=1)
        messages.append(p4r.StreamMessageRequest(digest_ack=ack))
    return list(messages)


def entities(info: p4i.P4Info) -> Iterator[p4r.Entity]:
    """Yield an entity of each object of a program, and of the replication engine."""
    actions = {item.preamble.id: item for item in info.actions}
    for profile in info.action_profiles:
        yield from _profile(info, profile, actions)
    for table in info.tables:
        yield from _table(info, table, actions)
    for counter in info.counters:
        cell = p4r.CounterEntry(counter_id=counter.preamble.id, index=CELL, data=COUNT)
        yield p4r.Entity(counter_entry=cell)
    for meter in info.meters:
        entry = p4r.MeterEntry(meter_id=meter.preamble.id, index=CELL, config=METER)
        yield p4r.Entity(meter_entry=entry)
    for register in info.registers:
        value = p4d.P4Data(bitstring=b"\1")
        data = p4r.RegisterEntry(register_id=register.preamble.id, index=CELL, data=value)
        yield p4r.Entity(register_entry=data)
    for digest in info.digests:
        config = p4r.DigestEntry.Config(max_timeout_ns=1000, max_list_size=2, ack_timeout_ns=1000)
        yield p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=digest.preamble.id, config=config))
    for value_set in info.value_sets:
        member = p4r.ValueSetMember(match=[_match(field) for field in value_set.match])
        yield p4r.Entity(
            value_set_entry=p4r.ValueSetEntry(value_set_id=value_set.preamble.id, members=[member])
        )
    yield from _replication()


def _replication() -> Iterator[p4r.Entity]:
    replicas = [p4r.Replica(egress_port=port, instance=1) for port in (1, 2)]
    engine = p4r.PacketReplicationEngineEntry
    session = p4r.CloneSessionEntry(session_id=5, replicas=replicas, packet_length_bytes=64)
    group = p4r.MulticastGroupEntry(multicast_group_id=7, replicas=replicas)
    yield p4r.Entity(packet_replication_engine_entry=engine(clone_session_entry=session))
    yield p4r.Entity(packet_replication_engine_entry=engine(multicast_group_entry=group))


def _profile(
    info: p4i.P4Info, profile: p4i.ActionProfile, actions: dict[int, p4i.Action]
) -> Iterator[p4r.Entity]:
    table = next((t for t in info.tables if t.preamble.id in profile.table_ids), info.tables[0])
    number = profile.preamble.id
    member = p4r.ActionProfileMember(
        action_profile_id=number, member_id=1, action=_action(table, actions)
    )
    yield p4r.Entity(action_profile_member=member)
    members = [p4r.ActionProfileGroup.Member(member_id=1, weight=1)]
    group = p4r.ActionProfileGroup(
        action_profile_id=number, group_id=1, members=members, max_size=4
    )
    yield p4r.Entity(action_profile_group=group)


def _table(
    info: p4i.P4Info, table: p4i.Table, actions: dict[int, p4i.Action]
) -> Iterator[p4r.Entity]:
    kinds = {field.match_type for field in table.match_fields}
    exact_or_lpm = {p4i.MatchField.EXACT, p4i.MatchField.LPM}
    entry = p4r.TableEntry(
        table_id=table.preamble.id,
        match=[_match(field) for field in table.match_fields],
        priority=0 if kinds <= exact_or_lpm else 5,
    )
    if table.implementation_id:
        entry.action.action_profile_member_id = 1
    else:
        entry.action.action.CopyFrom(_action(table, actions))
    if table.idle_timeout_behavior:
        entry.idle_timeout_ns = 10**9
    yield p4r.Entity(table_entry=entry)
    direct = set(table.direct_resource_ids)
    if direct & {item.preamble.id for item in info.direct_counters}:
        counter = p4r.DirectCounterEntry(table_entry=entry, data=COUNT)
        yield p4r.Entity(direct_counter_entry=counter)
    if direct & {item.preamble.id for item in info.direct_meters}:
        meter = p4r.DirectMeterEntry(table_entry=entry, config=METER)
        yield p4r.Entity(direct_meter_entry=meter)
    default = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
    default.action.action.CopyFrom(_action(table, actions))
    yield p4r.Entity(table_entry=default)
    if table.implementation_id:
        once = p4r.ActionProfileAction(action=_action(table, actions), weight=1)
        entry.action.action_profile_action_set.action_profile_actions.append(once)
        yield p4r.Entity(table_entry=entry)


def _action(table: p4i.Table, actions: dict[int, p4i.Action]) -> p4r.Action:
    action = actions[table.action_refs[0].id]
    params = [p4r.Action.Param(param_id=param.id, value=b"\1") for param in action.params]
    return p4r.Action(action_id=action.preamble.id, params=params)


def _match(field: p4i.MatchField) -> p4r.FieldMatch:
    match, bits = p4r.FieldMatch(field_id=field.id), max(field.bitwidth, 1)
    top = (1 << (bits - 1)).to_bytes((bits + 7) // 8, "big")
    match field.match_type:
        case p4i.MatchField.LPM:
            match.lpm.value, match.lpm.prefix_len = top, 1
        case p4i.MatchField.TERNARY:
            match.ternary.value = match.ternary.mask = b"\1"
        case p4i.MatchField.RANGE:
            match.range.low, match.range.high = b"\0", b"\1"
        case p4i.MatchField.OPTIONAL:
            match.optional.value = b"\1"
        case _:
            match.exact.value = b"\1"
    return match
