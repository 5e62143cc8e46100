// Signed numbers: arithmetic, shifts, comparisons, casts; saturating addition and subtraction.
#include <core.p4>
#include <v1model.p4>

header h_t {
    int<8> a; int<8> b; bit<8> u; bit<8> v;
    int<8> sum; int<8> difference; int<8> product; int<8> shifted; int<16> extended;
    int<8> sat_sum; int<8> sat_difference; bit<8> usat_sum; bit<8> usat_difference;
    bit<8> unsigned; bit<8> flags; int<4> low; int<4> negative;
}
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.sum = hdr.h.a + hdr.h.b;
        hdr.h.difference = hdr.h.a - hdr.h.b;
        hdr.h.product = hdr.h.a * hdr.h.b;
        hdr.h.shifted = hdr.h.a >> 2;
        hdr.h.extended = (int<16>)hdr.h.a;
        hdr.h.sat_sum = hdr.h.a |+| hdr.h.b;
        hdr.h.sat_difference = hdr.h.a |-| hdr.h.b;
        hdr.h.usat_sum = hdr.h.u |+| hdr.h.v;
        hdr.h.usat_difference = hdr.h.u |-| hdr.h.v;
        hdr.h.unsigned = hdr.h.u * 3 - hdr.h.v;
        hdr.h.low = (int<4>)hdr.h.a;
        hdr.h.negative = -(int<4>)hdr.h.a;
        hdr.h.flags = 0;
        if (hdr.h.a < hdr.h.b) { hdr.h.flags = hdr.h.flags | 1; }
        if (hdr.h.u < hdr.h.v) { hdr.h.flags = hdr.h.flags | 2; }
        if (hdr.h.a < 0) { hdr.h.flags = hdr.h.flags | 4; }
        if ((bit<8>)hdr.h.a == hdr.h.u) { hdr.h.flags = hdr.h.flags | 8; }
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
