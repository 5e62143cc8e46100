// hash() with every algorithm of v1model.p4 that has a fixed result, a base and a bound.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a; bit<16> b; bit<3> c; bit<13> d; bit<32> e;
    bit<16> crc16; bit<16> crc16_custom; bit<32> crc32; bit<32> crc32_custom;
    bit<16> csum16; bit<16> xor16; bit<64> identity; bit<16> bounded;
}
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        tuple<bit<8>, bit<16>, bit<3>, bit<13>, bit<32>> data =
            { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e };
        hash(hdr.h.crc16, HashAlgorithm.crc16, 16w0, data, 32w0x10000);
        hash(hdr.h.crc16_custom, HashAlgorithm.crc16_custom, 16w0, data, 32w0x10000);
        hash(hdr.h.crc32, HashAlgorithm.crc32, 32w0, data, 64w0x100000000);
        hash(hdr.h.crc32_custom, HashAlgorithm.crc32_custom, 32w0, data, 64w0x100000000);
        hash(hdr.h.csum16, HashAlgorithm.csum16, 16w0, data, 32w0x10000);
        hash(hdr.h.xor16, HashAlgorithm.xor16, 16w0, data, 32w0x10000);
        hash(hdr.h.identity, HashAlgorithm.identity, 64w0, data, 64w0xffffffffffffffff);
        hash(hdr.h.bounded, HashAlgorithm.crc32, 16w1000, data, 32w17);
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
