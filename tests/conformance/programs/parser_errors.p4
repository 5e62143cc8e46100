// verify, errors of the program, reject, and what a packet is like after an error.
#include <core.p4>
#include <v1model.p4>

error { TooLarge, Odd }
header item_h { bit<8> kind; bit<8> value; }
header out_h { bit<8> code; bit<8> valid; }
struct headers_t { out_h o; item_h a; item_h b; }
struct metadata_t { }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.a);
        verify(hdr.a.value < 100, error.TooLarge);
        verify(hdr.a.value[0:0] == 0, error.Odd);
        transition select(hdr.a.kind) {
            0: accept;
            1: second;
            2: reject;
        }
    }
    state second { packet.extract(hdr.b); transition accept; }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.o.setValid();
        hdr.o.code = 0xff;
        if (std.parser_error == error.NoError) { hdr.o.code = 0; }
        else if (std.parser_error == error.PacketTooShort) { hdr.o.code = 1; }
        else if (std.parser_error == error.NoMatch) { hdr.o.code = 2; }
        else if (std.parser_error == error.TooLarge) { hdr.o.code = 0x10; }
        else if (std.parser_error == error.Odd) { hdr.o.code = 0x11; }
        hdr.o.valid = 0;
        if (hdr.a.isValid()) { hdr.o.valid = hdr.o.valid | 1; }
        if (hdr.b.isValid()) { hdr.o.valid = hdr.o.valid | 2; }
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.o); packet.emit(hdr.a); packet.emit(hdr.b); }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
