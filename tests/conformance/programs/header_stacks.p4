// Header stacks: next and last in the parser, push and pop, run-time indices, copies, overflow.
#include <core.p4>
#include <v1model.p4>

header control_h { bit<8> todo; bit<8> index; bit<8> value; }
header item_h { bit<1> bottom; bit<7> value; }

struct headers_t {
    control_h ctl;
    item_h[4] items;
    item_h[4] copies;
}
struct metadata_t { bit<8> seen; }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ctl);
        transition select(hdr.ctl.todo) {
            0xff: accept;
            default: item;
        }
    }
    state item {
        packet.extract(hdr.items.next);
        meta.seen = (bit<8>)hdr.items.lastIndex;
        transition select(hdr.items.last.bottom) {
            0: item;
            1: accept;
        }
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.ctl.todo == 1) {
            hdr.items.push_front(2);
            hdr.items[0].setValid();
            hdr.items[0].value = 0x11;
        } else if (hdr.ctl.todo == 2) {
            hdr.items.pop_front(2);
        } else if (hdr.ctl.todo == 3) {
            hdr.items[hdr.ctl.index].value = (bit<7>)hdr.ctl.value;
        } else if (hdr.ctl.todo == 4) {
            hdr.ctl.value = (bit<8>)hdr.items[hdr.ctl.index].value;
        } else if (hdr.ctl.todo == 5) {
            hdr.copies = hdr.items;
            hdr.items[1].setInvalid();
        } else if (hdr.ctl.todo == 6) {
            hdr.items[3] = hdr.items[0];
        }
        hdr.ctl.index = meta.seen;
        if (std.parser_error == error.StackOutOfBounds) { hdr.ctl.index = 0xee; }
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ctl);
        packet.emit(hdr.items);
        packet.emit(hdr.copies);
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
