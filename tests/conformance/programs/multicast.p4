// Multicast, and what wins when a packet is sent, dropped and multicast at the same time.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> todo; bit<8> group; bit<8> instance; bit<16> rid; bit<16> port; bit<8> origin; }
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.todo == 0) {
            std.mcast_grp = (bit<16>)hdr.h.group;
        } else if (hdr.h.todo == 1) {
            std.egress_spec = 2;
            std.mcast_grp = (bit<16>)hdr.h.group;
        } else if (hdr.h.todo == 2) {
            std.mcast_grp = (bit<16>)hdr.h.group;
            mark_to_drop(std);
        } else if (hdr.h.todo == 3) {
            mark_to_drop(std);
            std.mcast_grp = (bit<16>)hdr.h.group;
        } else if (hdr.h.todo == 4) {
            mark_to_drop(std);
            std.egress_spec = 2;
        } else if (hdr.h.todo == 5) {
            std.egress_spec = 511;
        } else if (hdr.h.todo == 6) {
            std.egress_spec = 2;
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.instance = (bit<8>)std.instance_type;
        hdr.h.rid = std.egress_rid;
        hdr.h.port = (bit<16>)std.egress_port;
        hdr.h.origin = (bit<8>)std.ingress_port;
        if (hdr.h.todo == 6) { std.egress_spec = 3; }
        if (hdr.h.todo == 0 && std.egress_port == 5) { mark_to_drop(std); }
    }
}

V1Switch(P(), NoVerify(), I(), E(), NoUpdate(), D()) main;
