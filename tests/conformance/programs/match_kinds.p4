// Every kind of match, alone and together with others, with priorities and constant entries.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> which; bit<8> a; bit<32> b; bit<16> c; bit<8> hit; }
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set(bit<8> value) { hdr.h.hit = value; }
    action miss() { hdr.h.hit = 0xff; }
    table by_exact {
        key = { hdr.h.a : exact; hdr.h.b : exact; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_lpm {
        key = { hdr.h.b : lpm; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_exact_lpm {
        key = { hdr.h.a : exact; hdr.h.b : lpm; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_ternary {
        key = { hdr.h.a : ternary; hdr.h.b : ternary; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_range {
        key = { hdr.h.c : range; hdr.h.a : exact; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_optional {
        key = { hdr.h.a : optional; hdr.h.c : optional; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_mixture {
        key = { hdr.h.a : exact; hdr.h.b : lpm; hdr.h.c : ternary; }
        actions = { set; miss; }
        default_action = miss();
    }
    table by_mask {
        key = { hdr.h.b & 0x00ffff00 : exact @name("masked"); hdr.h.isValid() : exact @name("valid"); }
        actions = { set; miss; }
        default_action = miss();
    }
    table constant {
        key = { hdr.h.a : ternary; hdr.h.c : range; }
        actions = { set; miss; }
        const default_action = miss();
        const entries = {
            (0x10 &&& 0xf0, 5 .. 9) : set(1);
            (0x10 &&& 0xf0, _) : set(2);
            (_, 7) : set(3);
        }
    }
    apply {
        std.egress_spec = 2;
        hdr.h.hit = 0;
        if (hdr.h.which == 0) { by_exact.apply(); }
        else if (hdr.h.which == 1) { by_lpm.apply(); }
        else if (hdr.h.which == 2) { by_exact_lpm.apply(); }
        else if (hdr.h.which == 3) { by_ternary.apply(); }
        else if (hdr.h.which == 4) { by_range.apply(); }
        else if (hdr.h.which == 5) { by_optional.apply(); }
        else if (hdr.h.which == 6) { by_mixture.apply(); }
        else if (hdr.h.which == 7) { by_mask.apply(); }
        else if (hdr.h.which == 8) { constant.apply(); }
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
