// Every way in which a v1model packet is copied or sent round again, chosen by the packet itself.
#include <core.p4>
#include <v1model.p4>

const bit<8> OP_FORWARD = 0;
const bit<8> OP_DROP = 1;
const bit<8> OP_MULTICAST = 2;
const bit<8> OP_CLONE_INGRESS = 3;
const bit<8> OP_CLONE_EGRESS = 4;
const bit<8> OP_RECIRCULATE = 5;
const bit<8> OP_RESUBMIT = 6;
const bit<8> OP_TRUNCATE = 7;
const bit<8> OP_DROP_EGRESS = 8;
const bit<8> OP_MULTICAST_THEN_DROP = 9;
const bit<8> OP_DROP_THEN_MULTICAST = 10;
const bit<8> OP_CLONE_AND_DROP = 11;

header command_t {
    bit<8>  op;
    bit<8>  count;      // passes still to do
    bit<16> argument;   // port, group, session or length
}

// What the packet saw on its last pass through egress.
header trace_t {
    bit<8>  instance_type;
    bit<16> rid;
    bit<16> kept;       // the preserved field
    bit<16> lost;       // a field that is not preserved
    bit<16> length;
    bit<16> port;
    bit<16> ingress_port;
}

struct headers_t {
    command_t command;
    trace_t   trace;
}

struct metadata_t {
    @field_list(1) bit<16> kept;
    bit<16> lost;
}

parser ReplicationParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.command);
        transition select(std.instance_type) {
            4: again;       // recirculated: the trace of the last pass follows
            default: accept;
        }
    }
    state again {
        packet.extract(hdr.trace);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ReplicationIngress(inout headers_t hdr, inout metadata_t meta,
                           inout standard_metadata_t std) {
    apply {
        meta.lost = meta.lost + 1;
        std.egress_spec = 1;
        if (hdr.command.op == OP_FORWARD) {
            std.egress_spec = (bit<9>)hdr.command.argument;
        } else if (hdr.command.op == OP_DROP) {
            mark_to_drop(std);
        } else if (hdr.command.op == OP_MULTICAST) {
            std.mcast_grp = hdr.command.argument;
        } else if (hdr.command.op == OP_MULTICAST_THEN_DROP) {
            std.mcast_grp = hdr.command.argument;
            mark_to_drop(std);
        } else if (hdr.command.op == OP_DROP_THEN_MULTICAST) {
            mark_to_drop(std);
            std.mcast_grp = hdr.command.argument;
        } else if (hdr.command.op == OP_CLONE_INGRESS || hdr.command.op == OP_CLONE_AND_DROP) {
            meta.kept = 0xabcd;
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.command.argument, 1);
            if (hdr.command.op == OP_CLONE_AND_DROP) {
                mark_to_drop(std);
            }
            hdr.command.count = 0xff;
        } else if (hdr.command.op == OP_RESUBMIT && meta.kept < (bit<16>)hdr.command.count) {
            meta.kept = meta.kept + 1;
            hdr.command.argument = 0xffff;
            resubmit_preserving_field_list(1);
        } else if (hdr.command.op == OP_TRUNCATE) {
            truncate((bit<32>)hdr.command.argument);
        }
    }
}

control ReplicationEgress(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t std) {
    apply {
        hdr.trace.setValid();
        hdr.trace.instance_type = (bit<8>)std.instance_type;
        hdr.trace.rid = std.egress_rid;
        hdr.trace.kept = meta.kept;
        hdr.trace.lost = meta.lost;
        hdr.trace.length = (bit<16>)std.packet_length;
        hdr.trace.port = (bit<16>)std.egress_port;
        hdr.trace.ingress_port = (bit<16>)std.ingress_port;
        if (hdr.command.op == OP_DROP_EGRESS) {
            mark_to_drop(std);
        } else if (hdr.command.op == OP_CLONE_EGRESS && std.instance_type == 0) {
            meta.kept = 0x1234;
            hdr.command.count = 7;
            clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.command.argument, 1);
        } else if (hdr.command.op == OP_RECIRCULATE && hdr.command.count != 0) {
            hdr.command.count = hdr.command.count - 1;
            meta.kept = meta.kept + 1;
            recirculate_preserving_field_list(1);
        }
    }
}

control ReplicationDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ReplicationParser(), NoChecksum(), ReplicationIngress(), ReplicationEgress(),
         NoChecksum(), ReplicationDeparser()) main;
