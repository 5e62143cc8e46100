// A small switch with one of each thing that P4Runtime can reach: every match kind, constant and
// default entries, direct and indirect counters, registers, multicast, cloning and a CPU port.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;
const bit<32> CLONE_SESSION = 7;

@controller_header("packet_in")
header packet_in_h {
    bit<9> ingress_port;
    bit<7> padding;
}

@controller_header("packet_out")
header packet_out_h {
    bit<9> egress_port;
    bit<7> padding;
}

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_h {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    packet_in_h packet_in;
    packet_out_h packet_out;
    ethernet_h ethernet;
    ipv4_h ipv4;
}

struct metadata_t {
    bit<16> class;
}

parser SwitchParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control SwitchVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) l2_counter;
    counter(16, CounterType.packets_and_bytes) port_counter;
    register<bit<48>>(8) last_source;
    register<int<16>>(4) offset;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    action mirror() {
        clone(CloneType.I2E, CLONE_SESSION);
    }

    action set_class(bit<16> class) {
        meta.class = class;
    }

    action route(bit<48> mac, bit<9> port) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        standard_metadata.egress_spec = port;
    }

    table l2 {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = {
            forward;
            flood;
            @defaultonly drop;
        }
        size = 16384;
        default_action = drop();
        counters = l2_counter;
    }

    table routes {
        key = {
            hdr.ipv4.dst: lpm;
        }
        actions = {
            route;
            @tableonly drop;
            NoAction;
        }
        size = 1024;
        default_action = NoAction();
    }

    table acl {
        key = {
            standard_metadata.ingress_port: exact;
            hdr.ethernet.src: ternary;
            hdr.ethernet.type: range;
            hdr.ethernet.dst: optional;
        }
        actions = {
            drop;
            mirror;
            set_class;
            NoAction;
        }
        size = 256;
        const default_action = NoAction();
    }

    table types {
        key = {
            hdr.ethernet.type: ternary;
        }
        actions = {
            set_class;
            NoAction;
        }
        const entries = {
            0x0800 &&& 0xffff: set_class(4);
            0x8600 &&& 0xff00: set_class(6);
        }
        default_action = NoAction();
    }

    table stamp {
        actions = {
            set_class;
            NoAction;
        }
        default_action = NoAction();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            stamp.apply();
            types.apply();
            acl.apply();
            l2.apply();
            if (hdr.ipv4.isValid()) {
                routes.apply();
            }
            port_counter.count((bit<32>) standard_metadata.ingress_port & 15);
            last_source.write((bit<32>) standard_metadata.ingress_port & 7, hdr.ethernet.src);
            offset.write((bit<32>) standard_metadata.ingress_port & 3, -1);
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.padding = 0;
        }
    }
}

control SwitchComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(SwitchParser(), SwitchVerifyChecksum(), SwitchIngress(), SwitchEgress(),
         SwitchComputeChecksum(), SwitchDeparser()) main;
