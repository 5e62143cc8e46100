// Header stacks, varbit fields, header unions and lookahead.
#include <core.p4>
#include <v1model.p4>

const bit<8> KIND_STACK = 1;
const bit<8> KIND_VARBIT = 2;
const bit<8> KIND_UNION = 3;
const bit<8> KIND_WIDE = 4;

header command_t {
    bit<8> kind;
    bit<8> op;
    bit<8> index;
}

header label_t {
    bit<20> value;
    bit<3>  class;
    bit<1>  bottom;
    bit<8>  ttl;
}

header options_t {
    bit<8>      length;   // of data, in bytes
    varbit<256> data;
    bit<8>      check;
}

header small_t {
    bit<8> tag;
    bit<8> value;
}

header large_t {
    bit<8>  tag;
    bit<32> value;
}

header_union choice_t {
    small_t small;
    large_t large;
}

header wide_t {
    bit<256> a;
    bit<256> b;
}

struct headers_t {
    command_t  command;
    label_t[4] labels;
    options_t  options;
    choice_t   choice;
    wide_t     wide;
}

struct metadata_t { }

parser HeadersParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.command);
        transition select(hdr.command.kind) {
            KIND_STACK: label;
            KIND_VARBIT: options;
            KIND_UNION: choice;
            KIND_WIDE: wide;
            default: accept;
        }
    }
    state label {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) {
            0: label;
            default: accept;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<8>>() << 3);
        transition accept;
    }
    state choice {
        transition select(packet.lookahead<bit<8>>()) {
            1: small;
            2: large;
            default: accept;
        }
    }
    state small {
        packet.extract(hdr.choice.small);
        transition accept;
    }
    state large {
        packet.extract(hdr.choice.large);
        transition accept;
    }
    state wide {
        packet.extract(hdr.wide);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control HeadersIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (std.parser_error != error.NoError) {
            std.egress_spec = 3;
            if (std.parser_error == error.StackOutOfBounds) {
                std.egress_spec = 4;
            } else if (std.parser_error == error.PacketTooShort) {
                std.egress_spec = 5;
            } else if (std.parser_error == error.HeaderTooShort) {
                std.egress_spec = 6;
            }
        }
        if (hdr.command.kind == KIND_STACK) {
            if (hdr.command.op == 1) {
                hdr.labels.push_front(1);
                hdr.labels[0].setValid();
                hdr.labels[0].value = 0x77;
            } else if (hdr.command.op == 2) {
                hdr.labels.pop_front(1);
            } else if (hdr.command.op == 3) {
                hdr.labels[hdr.command.index].ttl = 0xee;
            } else if (hdr.command.op == 4) {
                hdr.labels[1] = hdr.labels[0];
            }
        } else if (hdr.command.kind == KIND_VARBIT) {
            if (hdr.command.op == 1) {
                hdr.options.setInvalid();
            }
            hdr.options.check = hdr.options.check + 1;
        } else if (hdr.command.kind == KIND_UNION) {
            if (hdr.choice.small.isValid()) {
                hdr.choice.large.setValid();
                hdr.choice.large.tag = 2;
                hdr.choice.large.value = 0xcafe0000;
            } else if (hdr.choice.large.isValid()) {
                hdr.choice.small.setValid();
                hdr.choice.small.tag = 1;
                hdr.choice.small.value = 9;
            }
        } else if (hdr.command.kind == KIND_WIDE) {
            if (hdr.command.op == 1) {
                hdr.wide.a = hdr.wide.b;
            } else if (hdr.command.op == 2) {
                hdr.wide.a = 256w0x0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef;
            } else if (hdr.command.op == 3) {
                hdr.command.index = hdr.wide.b[247:240];
            } else if (hdr.wide.a == hdr.wide.b) {
                hdr.command.index = 0xee;
            }
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control HeadersDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(HeadersParser(), NoChecksum(), HeadersIngress(), NoEgress(), NoChecksum(),
         HeadersDeparser()) main;
