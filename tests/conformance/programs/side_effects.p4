// Primitives with effects beside the headers: digest, log_msg, assert, assume, random, truncate.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> todo; bit<8> low; bit<8> high; bit<8> flags; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> drawn; }
struct digest_t { bit<8> todo; bit<200> wide; }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        assert(hdr.h.todo != 9);
        assume(hdr.h.todo < 20);
        log_msg("a packet");
        log_msg("todo {} of {} and {}", { hdr.h.todo, 200w0 - 1, hdr.h.isValid() });
        if (hdr.h.todo == 1) {
            digest<digest_t>(1, { hdr.h.todo, 200w5 });
        } else if (hdr.h.todo == 2) {
            random(meta.drawn, hdr.h.low, hdr.h.high);
            if (meta.drawn >= hdr.h.low && meta.drawn <= hdr.h.high) { hdr.h.flags = 1; }
        } else if (hdr.h.todo == 3) {
            truncate(3);
        } else if (hdr.h.todo == 4) {
            truncate(100);
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.todo == 5) { truncate(5); }
        else if (hdr.h.todo == 6) { truncate(6); truncate(5); truncate(7); }
    }
}

V1Switch(P(), NoVerify(), I(), E(), NoUpdate(), D()) main;
