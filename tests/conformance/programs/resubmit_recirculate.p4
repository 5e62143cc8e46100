// Resubmit and recirculate, with fields that they keep; truncation of the last pass.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> todo; bit<8> value; bit<8> kept; bit<8> lost; bit<8> instance; bit<16> size; }
struct headers_t { h_t h; }
struct metadata_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (std.instance_type == 0) {
            meta.kept = hdr.h.value + 1;
            meta.lost = hdr.h.value + 2;
            hdr.h.value = 0xee;
            if (hdr.h.todo == 1) { resubmit_preserving_field_list(1); }
            if (hdr.h.todo == 4) { resubmit_preserving_field_list(1); std.mcast_grp = 1; }
        }
        hdr.h.size = (bit<16>)std.packet_length;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.kept = meta.kept;
        hdr.h.lost = meta.lost;
        hdr.h.instance = hdr.h.instance | (bit<8>)std.instance_type;
        if (hdr.h.todo == 2 && hdr.h.instance == 0) {
            hdr.h.instance = 0x40;
            recirculate_preserving_field_list(1);
        }
        if (hdr.h.todo == 3) {
            if (hdr.h.instance == 0) { hdr.h.instance = 0x40; recirculate_preserving_field_list(1); }
            else { truncate(9); }
        }
    }
}

V1Switch(P(), NoVerify(), I(), E(), NoUpdate(), D()) main;
