// Arithmetic on numbers of hundreds of bits, beside narrow ones and at odd offsets.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> todo; bit<3> pad; bit<260> a; bit<257> b; bit<8> n; bit<260> r; bit<4> flags; }
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bit<260> b = (bit<260>)hdr.h.b;
        if (hdr.h.todo == 0) { hdr.h.r = hdr.h.a + b; }
        else if (hdr.h.todo == 1) { hdr.h.r = hdr.h.a - b; }
        else if (hdr.h.todo == 2) { hdr.h.r = hdr.h.a * b; }
        else if (hdr.h.todo == 3) { hdr.h.r = hdr.h.a << hdr.h.n; }
        else if (hdr.h.todo == 4) { hdr.h.r = hdr.h.a >> hdr.h.n; }
        else if (hdr.h.todo == 5) { hdr.h.r = (hdr.h.a & b) | (hdr.h.a ^ ~b); }
        else if (hdr.h.todo == 6) { hdr.h.r = (bit<260>)(hdr.h.a[150:20] ++ hdr.h.b[99:3]); }
        else if (hdr.h.todo == 7) { hdr.h.r = (bit<260>)((int<260>)hdr.h.a >> hdr.h.n); }
        else if (hdr.h.todo == 8) { hdr.h.r = hdr.h.a |+| b; }
        else if (hdr.h.todo == 9) { hdr.h.r = hdr.h.a |-| b; }
        hdr.h.flags = 0;
        if (hdr.h.a < b) { hdr.h.flags = hdr.h.flags | 1; }
        if (hdr.h.a == b) { hdr.h.flags = hdr.h.flags | 2; }
        if ((int<260>)hdr.h.a < (int<260>)b) { hdr.h.flags = hdr.h.flags | 4; }
        if (hdr.h.a[259:130] >= (bit<130>)hdr.h.n) { hdr.h.flags = hdr.h.flags | 8; }
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
