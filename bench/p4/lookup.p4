/* One table of each kind of match, for measuring lookups: ether_type says which one a packet asks. */
#include <core.p4>
#include <v1model.p4>

header frame_h {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
    bit<32> a;
    bit<32> b;
}

struct headers_t {
    frame_h frame;
}

struct metadata_t {
}

parser LookupParser(packet_in packet, out headers_t hdr, inout metadata_t md,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.frame);
        transition accept;
    }
}

control LookupVerify(inout headers_t hdr, inout metadata_t md) {
    apply { }
}

control Lookup(inout headers_t hdr, inout metadata_t md,
               inout standard_metadata_t standard_metadata) {
    action send(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action drop() {
        mark_to_drop(standard_metadata);
    }
    table exact_match {
        key = { hdr.frame.a: exact; hdr.frame.b: exact; }
        actions = { send; drop; }
        size = 2097152;
        default_action = drop();
    }
    table longest_prefix {
        key = { hdr.frame.a: lpm; }
        actions = { send; drop; }
        size = 2097152;
        default_action = drop();
    }
    table ternary_match {
        key = { hdr.frame.a: ternary; hdr.frame.b: ternary; }
        actions = { send; drop; }
        size = 2097152;
        default_action = drop();
    }
    apply {
        if (hdr.frame.ether_type == 1) {
            exact_match.apply();
        } else if (hdr.frame.ether_type == 2) {
            longest_prefix.apply();
        } else if (hdr.frame.ether_type == 3) {
            ternary_match.apply();
        } else {
            send(1);
        }
    }
}

control LookupEgress(inout headers_t hdr, inout metadata_t md,
                     inout standard_metadata_t standard_metadata) {
    apply { }
}

control LookupUpdate(inout headers_t hdr, inout metadata_t md) {
    apply { }
}

control LookupDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.frame);
    }
}

V1Switch(LookupParser(), LookupVerify(), Lookup(), LookupEgress(), LookupUpdate(),
         LookupDeparser()) main;
