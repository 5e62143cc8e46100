// Branches on hit, miss and the action that ran; exit and return; default actions; side effects of
// actions with parameters; a table that notes when entries were hit.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> trace; bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action first(bit<8> v) { hdr.h.value = v; }
    action second() { hdr.h.value = hdr.h.value + 1; }
    action leave() { hdr.h.value = 0x77; exit; }
    action swap(inout bit<8> a, inout bit<8> b) { bit<8> t = a; a = b; b = t; }
    table t {
        key = { hdr.h.key : exact; }
        actions = { first; second; leave; NoAction; }
        default_action = second();
        support_timeout = true;
    }
    table u {
        key = { hdr.h.trace : exact; }
        actions = { first; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = { 0x11 : first(0x99); }
    }
    apply {
        std.egress_spec = 2;
        hdr.h.trace = 0;
        switch (t.apply().action_run) {
            first: { hdr.h.trace = 0x10; }
            second: { hdr.h.trace = 0x20; }
            default: { hdr.h.trace = 0x30; }
        }
        if (hdr.h.key == 3) {
            swap(hdr.h.trace, hdr.h.value);
            return;
        }
        hdr.h.trace = hdr.h.trace | 1;
        if (u.apply().hit) { hdr.h.trace = hdr.h.trace | 2; }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.h.trace = hdr.h.trace | 0x80; }
}

V1Switch(P(), NoVerify(), I(), E(), NoUpdate(), D()) main;
