// Clones of ingress and egress, to a port and to a group, with fields that they keep.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> todo; bit<8> value; bit<8> kept; bit<8> lost; bit<8> instance; bit<8> rid; }
struct headers_t { h_t h; }
struct metadata_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        meta.kept = hdr.h.value + 1;
        meta.lost = hdr.h.value + 2;
        if (hdr.h.todo == 1) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        else if (hdr.h.todo == 2) { clone(CloneType.I2E, 6); }
        else if (hdr.h.todo == 4) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            mark_to_drop(std);
        } else if (hdr.h.todo == 5) { clone(CloneType.I2E, 7); }
        hdr.h.value = 0xee;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.kept = meta.kept;
        hdr.h.lost = meta.lost;
        hdr.h.instance = (bit<8>)std.instance_type;
        hdr.h.rid = (bit<8>)std.egress_rid;
        if (std.instance_type == 0) {
            if (hdr.h.todo == 3) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
            if (hdr.h.todo == 6) { clone(CloneType.E2E, 6); mark_to_drop(std); }
        }
    }
}

V1Switch(P(), NoVerify(), I(), E(), NoUpdate(), D()) main;
