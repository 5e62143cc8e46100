// Looking ahead in the packet: narrow, wide, in a choice, as a header, and beyond the end; advance.
#include <core.p4>
#include <v1model.p4>

header out_h { bit<8> state; bit<12> cut; bit<4> nibble; bit<200> ahead; }
header skip_h { bit<8> kind; bit<8> count; }
struct pair_t { bit<4> high; bit<12> low; }
struct headers_t { out_h o; skip_h skip; }
struct metadata_t { bit<8> state; bit<12> cut; bit<4> nibble; bit<200> ahead; }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start {
        meta.state = 0;
        transition select(packet.lookahead<bit<136>>()) {
            0x0102030405060708090a0b0c0d0e0f1011: wide;
            0x02 << 128 &&& 0xff << 128: skip;
            0x03 << 128 &&& 0xff << 128: pair;
            default: accept;
        }
    }
    state wide { meta.state = 1; meta.ahead = packet.lookahead<bit<200>>(); transition accept; }
    state skip {
        meta.state = 2;
        packet.extract(hdr.skip);
        packet.advance((bit<32>)hdr.skip.count * 4);
        meta.cut = (bit<12>)packet.lookahead<bit<8>>();
        transition accept;
    }
    state pair {
        pair_t p = packet.lookahead<pair_t>();
        meta.state = 3;
        meta.nibble = p.high;
        meta.cut = p.low;
        transition accept;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.o.setValid();
        hdr.o.state = meta.state;
        hdr.o.cut = meta.cut;
        hdr.o.nibble = meta.nibble;
        hdr.o.ahead = meta.ahead;
        if (std.parser_error == error.PacketTooShort) { hdr.o.cut = 0xee1; }
        if (std.parser_error == error.ParserInvalidArgument) { hdr.o.cut = 0xee6; }
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.o); packet.emit(hdr.skip); }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
