// Registers of every kind of width; an index out of range reads and writes nothing.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> index; bit<8> write;
    bit<1> a; bit<7> pad; bit<13> b; bit<3> c; bit<64> d; bit<127> e; bit<1> pad2; bit<304> f;
}
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<1>>(4) bits;
    register<bit<13>>(4) thirteen;
    register<int<3>>(4) signed;
    register<bit<64>>(4) words;
    register<bit<127>>(4) wide;
    register<bit<304>>(4) wider;
    int<3> value = 0;
    apply {
        std.egress_spec = 2;
        bit<32> i = (bit<32>)hdr.h.index;
        if (hdr.h.write == 1) {
            bits.write(i, hdr.h.a);
            thirteen.write(i, hdr.h.b);
            signed.write(i, (int<3>)hdr.h.c);
            words.write(i, hdr.h.d);
            wide.write(i, hdr.h.e + 1);
            wider.write(i, hdr.h.f + 1);
        } else {
            bits.read(hdr.h.a, i);
            thirteen.read(hdr.h.b, i);
            signed.read(value, i);
            hdr.h.c = (bit<3>)value;
            words.read(hdr.h.d, i);
            wide.read(hdr.h.e, i);
            wider.read(hdr.h.f, i);
        }
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
