// What the switch tells a program: ports, lengths, times, queues.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> came; bit<8> went; bit<32> length_in; bit<32> length_out; bit<8> flags; }
header more_t { bit<16> value; }
struct headers_t { h_t h; more_t more; }
struct metadata_t { bit<48> before; }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.came = (bit<8>)std.ingress_port;
        hdr.h.length_in = std.packet_length;
        meta.before = std.ingress_global_timestamp;
        hdr.more.setValid();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.went = (bit<8>)std.egress_port;
        hdr.h.length_out = std.packet_length;
        hdr.h.flags = 0;
        if (std.ingress_global_timestamp > 0) { hdr.h.flags = hdr.h.flags | 1; }
        if (std.egress_global_timestamp >= std.ingress_global_timestamp) {
            hdr.h.flags = hdr.h.flags | 2;
        }
        if ((bit<48>)std.enq_timestamp <= std.egress_global_timestamp) {
            hdr.h.flags = hdr.h.flags | 4;
        }
        if (std.enq_qdepth == 0 && std.deq_qdepth == 0) { hdr.h.flags = hdr.h.flags | 8; }
        if (meta.before == std.ingress_global_timestamp) { hdr.h.flags = hdr.h.flags | 16; }
    }
}

control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), NoVerify(), I(), E(), NoUpdate(), D()) main;
