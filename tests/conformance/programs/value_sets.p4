// Parser value sets: of one field, and of two.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> first; bit<16> second; bit<8> state; }
struct headers_t { h_t h; }
struct pair_t { bit<8> a; bit<16> b; }
struct metadata_t { bit<8> state; }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    value_set<bit<8>>(4) singles;
    value_set<pair_t>(4) pairs;
    state start {
        packet.extract(hdr.h);
        meta.state = 0;
        transition select(hdr.h.first) {
            singles: single;
            1: one;
            default: more;
        }
    }
    state single { meta.state = 1; transition more; }
    state one { meta.state = 2; transition more; }
    state more {
        transition select(hdr.h.first, hdr.h.second) {
            pairs: pair;
            default: accept;
        }
    }
    state pair { meta.state = meta.state | 0x10; transition accept; }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 2; hdr.h.state = meta.state; }
}

control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
