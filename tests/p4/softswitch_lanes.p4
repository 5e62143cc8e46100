// Thirty-two lanes of one table lookup, one shift and one register each: the speed that is measured.
#include <core.p4>
#include <v1model.p4>

#define FOR_LANES(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

#define LANE_FIELDS(i) bit<16> row##i; bit<1> sign##i; bit<8> exponent##i; bit<23> fraction##i;

header gradients_t {
    bit<32> tag;
    FOR_LANES(LANE_FIELDS)
}

struct headers_t {
    ethernet_t  ethernet;
    gradients_t gradients;
}

struct metadata_t { }

parser LanesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.gradients);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Lane(in bit<16> row, in bit<8> exponent, in bit<23> fraction, in bit<32> tag) {
    register<bit<96>>(65536) cells;
    bit<64> v = 0;

    action left(bit<8> n) {
        v = v << n;
    }
    action right(bit<8> n) {
        v = v >> n;
    }
    action zero() {
        v = 0;
    }
    table shift {
        key = { exponent: exact; }
        actions = { left; right; zero; }
        default_action = zero();
        size = 256;
    }
    apply {
        bit<96> cell;
        v = (bit<64>)(1w1 ++ fraction);
        shift.apply();
        cells.read(cell, (bit<32>)row);
        bit<32> high = v[55:24];
        bit<32> low = 8w0 ++ v[23:0];
        if (cell[95:64] == tag) {
            high = high + cell[63:32];
            low = low + cell[31:0];
        }
        cells.write((bit<32>)row, tag ++ high ++ low);
    }
}

#define LANE_INSTANCE(i) Lane() lane##i;
#define LANE_APPLY(i) lane##i.apply(hdr.gradients.row##i, hdr.gradients.exponent##i, \
                                    hdr.gradients.fraction##i, hdr.gradients.tag);

control LanesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    FOR_LANES(LANE_INSTANCE)
    apply {
        FOR_LANES(LANE_APPLY)
        std.egress_spec = 1;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control LanesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(LanesParser(), NoChecksum(), LanesIngress(), NoEgress(), NoChecksum(),
         LanesDeparser()) main;
