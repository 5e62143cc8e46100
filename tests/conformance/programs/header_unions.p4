// Header unions: one member is valid at a time; whole unions are copied and compared; a stack of
// unions is filled by next, indexed, pushed and popped.
#include <core.p4>
#include <v1model.p4>

header control_h {
    bit<8> todo;  // 0: look only, 1: make the short member valid, 2: push, 3: pop, 4: copy
    bit<8> unused;
}
header kind_h { bit<8> kind; }
header short_h { bit<8> kind; bit<8> value; }
header long_h { bit<8> kind; bit<16> value; bit<8> more; }
header_union option_u { short_h narrow; long_h wide; }
header result_h { bit<8> flags; bit<8> value; }

struct headers_t {
    control_h   ctl;
    option_u    first;
    option_u    second;
    option_u[3] options;
    result_h    result;
}
struct metadata_t { }
#include "frame.inc"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ctl);
        transition select(packet.lookahead<bit<8>>()) {
            1: first_short;
            2: first_long;
            default: option;
        }
    }
    state first_short { packet.extract(hdr.first.narrow); transition option; }
    state first_long { packet.extract(hdr.first.wide); transition option; }
    state option {
        transition select(packet.lookahead<bit<8>>()) {
            3: option_short;
            4: option_long;
            default: accept;
        }
    }
    state option_short { packet.extract(hdr.options.next.narrow); transition option; }
    state option_long { packet.extract(hdr.options.next.wide); transition option; }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.result.setValid();
        hdr.result.flags = 0;
        hdr.result.value = 0xff;
        if (hdr.first.narrow.isValid()) { hdr.result.flags = hdr.result.flags | 1; }
        if (hdr.first.wide.isValid()) { hdr.result.flags = hdr.result.flags | 2; }
        if (hdr.options[1].narrow.isValid()) {
            hdr.result.flags = hdr.result.flags | 4;
            hdr.result.value = hdr.options[1].narrow.value;
        }
        if (hdr.options[1].wide.isValid()) {
            hdr.result.flags = hdr.result.flags | 8;
            hdr.result.value = hdr.options[1].wide.more;
        }
        if (hdr.ctl.todo == 1) {
            hdr.first.narrow.setValid();
            hdr.first.narrow.kind = 0x55;
            hdr.options[1].narrow.setValid();
            hdr.options[1].narrow.value = 0x77;
        } else if (hdr.ctl.todo == 2) {
            hdr.options.push_front(1);
        } else if (hdr.ctl.todo == 3) {
            hdr.options.pop_front(1);
        } else if (hdr.ctl.todo == 4) {
            hdr.second = hdr.first;
            if (hdr.second == hdr.first) { hdr.result.flags = hdr.result.flags | 0x10; }
        }
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.result);
        packet.emit(hdr.ctl);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
        packet.emit(hdr.options);
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
