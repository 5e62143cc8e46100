// Checksums: verified and updated, with a condition, with payload, over odd bits.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<16> a; bit<4> b; bit<12> c; bit<16> sum; }
header u_t { bit<8> use; bit<8> kind; bit<16> sum; }
header o_t { bit<8> wrong; bit<16> odd; }
struct headers_t { o_t o; h_t h; u_t u; }
struct metadata_t { }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); packet.extract(hdr.u); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.h.isValid(), { hdr.h.a, hdr.h.b, hdr.h.c }, hdr.h.sum,
                        HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.u.use == 1, { hdr.u.use, hdr.u.kind }, hdr.u.sum,
                                     HashAlgorithm.csum16);
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.o.setValid();
        hdr.o.wrong = (bit<8>)std.checksum_error;
        hdr.h.a = hdr.h.a + 1;
        hdr.u.kind = hdr.u.kind + 1;
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.h.isValid(), { hdr.h.a, hdr.h.b, hdr.h.c }, hdr.h.sum,
                        HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.u.use == 1, { hdr.u.use, hdr.u.kind }, hdr.u.sum,
                                     HashAlgorithm.csum16);
        update_checksum(true, { hdr.h.c, hdr.h.b, 3w5, hdr.h.a }, hdr.o.odd, HashAlgorithm.crc16);
    }
}

control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), Verify(), I(), NoEgress(), Update(), D()) main;
