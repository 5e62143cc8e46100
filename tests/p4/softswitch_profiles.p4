// Tables with an action profile, and two tables that share an action selector.
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
    bit<16> class;
}

struct headers_t {
    ethernet_h ethernet;
    flow_h flow;
}

struct metadata_t { }

parser ProfilesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.flow);
        transition accept;
    }
}

control ProfilesVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProfilesIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    action_profile(4) classes;
    @max_group_size(8)
    action_selector(HashAlgorithm.crc32, 32, 32w16) paths;
    direct_counter(CounterType.packets) class_counter;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action routed(bit<9> port, bit<16> route) {
        standard_metadata.egress_spec = port;
        hdr.flow.route = route;
    }

    action classify(bit<16> class) {
        class_counter.count();
        hdr.flow.class = class;
    }

    table sources {
        key = {
            hdr.ethernet.src: ternary;
        }
        actions = {
            classify;
            NoAction;
        }
        size = 256;
        implementation = classes;
        counters = class_counter;
    }

    table destinations {
        key = {
            hdr.ethernet.dst: exact;
            hdr.flow.id: selector;
            hdr.flow.class: selector;
        }
        actions = {
            to_port;
            routed;
            drop;
            NoAction;
        }
        size = 1024;
        implementation = paths;
    }

    table fallback {
        key = {
            hdr.ethernet.type: exact;
            hdr.flow.id: selector;
            hdr.flow.class: selector;
        }
        actions = {
            to_port;
            routed;
            drop;
            NoAction;
        }
        size = 1024;
        implementation = paths;
    }

    apply {
        sources.apply();
        if (!destinations.apply().hit) {
            fallback.apply();
        }
    }
}

control ProfilesEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply { }
}

control ProfilesComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProfilesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.flow);
    }
}

V1Switch(ProfilesParser(), ProfilesVerifyChecksum(), ProfilesIngress(), ProfilesEgress(),
         ProfilesComputeChecksum(), ProfilesDeparser()) main;
