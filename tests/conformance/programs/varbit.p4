// Varbit fields: extracted with a run-time length, copied, compared, in checksums, emitted.
#include <core.p4>
#include <v1model.p4>

header control_h { bit<8> todo; bit<8> flags; bit<16> sum; }
header option_h { bit<4> kind; bit<4> words; varbit<128> data; bit<8> tail; }

struct headers_t { control_h ctl; option_h a; option_h b; }
struct metadata_t { }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ctl);
        packet.extract(hdr.a, (bit<32>)packet.lookahead<bit<8>>()[3:0] * 32 - (bit<32>)hdr.ctl.flags);
        packet.extract(hdr.b, (bit<32>)packet.lookahead<bit<8>>()[3:0] * 32);
        transition accept;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.ctl.todo == 1) { hdr.b.data = hdr.a.data; }
        if (hdr.ctl.todo == 2) { hdr.b = hdr.a; }
        if (hdr.ctl.todo == 3) { hdr.a.setInvalid(); }
        hdr.ctl.flags = 0;
        if (hdr.a.isValid() && hdr.b.isValid() && hdr.a.data == hdr.b.data) { hdr.ctl.flags = 1; }
        if (std.parser_error == error.HeaderTooShort) { hdr.ctl.flags = 0xe4; }
        if (std.parser_error == error.PacketTooShort) { hdr.ctl.flags = 0xe1; }
        if (std.parser_error == error.ParserInvalidArgument) { hdr.ctl.flags = 0xe6; }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.b.isValid(), { hdr.b.kind, hdr.b.words, hdr.b.data, hdr.b.tail },
                        hdr.ctl.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ctl); packet.emit(hdr.a); packet.emit(hdr.b); }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), Update(), D()) main;
