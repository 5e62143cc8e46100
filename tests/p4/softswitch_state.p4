// State that packets and controllers share: action profiles and selectors, meters, value sets,
// digests, entries that age, direct counters.
#include <core.p4>
#include <v1model.p4>

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header flow_h {
    bit<32> id;
    bit<16> route;
    bit<8> color;
    bit<8> direct_color;
    bit<8> parsed_as;
}

struct headers_t {
    ethernet_h ethernet;
    flow_h flow;
}

struct metadata_t {
    bit<8> color;
    bit<8> parsed_as;
}

struct station_t {
    bit<48> address;
    bit<9> port;
}


parser StateParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) flow_types;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x1111: plain;
            flow_types: chosen;
            default: accept;
        }
    }

    state plain {
        packet.extract(hdr.flow);
        meta.parsed_as = 1;
        transition accept;
    }

    state chosen {
        packet.extract(hdr.flow);
        meta.parsed_as = 2;
        transition accept;
    }
}

control StateVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StateIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    action_profile(16) next_hops;
    @max_group_size(8)
    action_selector(HashAlgorithm.crc32, 32, 32w16) paths;
    meter(4, MeterType.bytes) flow_meter;
    direct_meter<bit<8>>(MeterType.packets) station_meter;
    direct_counter(CounterType.packets_and_bytes) station_counter;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action tag(bit<9> port, bit<16> route) {
        standard_metadata.egress_spec = port;
        hdr.flow.route = route;
    }

    action known() {
        station_meter.read(meta.color);
        station_counter.count();
    }

    action learn() {
        station_counter.count();
        digest<station_t>(1, {hdr.ethernet.src, standard_metadata.ingress_port});
    }

    table stations {
        key = {
            hdr.ethernet.src: exact;
        }
        actions = {
            known;
            learn;
        }
        size = 1024;
        default_action = learn();
        meters = station_meter;
        counters = station_counter;
        support_timeout = true;
    }

    table hops {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = {
            to_port;
            drop;
            NoAction;
        }
        size = 1024;
        implementation = next_hops;
    }

    table balanced {
        key = {
            hdr.ethernet.dst: exact;
            hdr.flow.id: selector;
        }
        actions = {
            to_port;
            tag;
            NoAction;
        }
        size = 1024;
        implementation = paths;
    }

    apply {
        stations.apply();
        hops.apply();
        if (hdr.flow.isValid()) {
            balanced.apply();
            flow_meter.execute_meter((bit<32>) hdr.flow.route & 3, hdr.flow.color);
            hdr.flow.direct_color = meta.color;
            hdr.flow.parsed_as = meta.parsed_as;
        }
    }
}

control StateEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply { }
}

control StateComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StateDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.flow);
    }
}

V1Switch(StateParser(), StateVerifyChecksum(), StateIngress(), StateEgress(),
         StateComputeChecksum(), StateDeparser()) main;
