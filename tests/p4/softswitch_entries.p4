// Entries that come with the program, with and without const; types that controllers see as
// something else (ports of 32 bits, and names); digests of every kind of value.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("tests/port", 32)
type bit<9> port_t;

@p4runtime_translation("tests/tenant", string)
type bit<12> tenant_t;

enum color_t {
    RED,
    BLUE
}

enum bit<8> level_t {
    LOW = 3,
    HIGH = 7
}

struct kinds_t {
    bool flag;
    error problem;
    color_t color;
    level_t level;
    int<8> change;
    tenant_t tenant;
}

header h_t {
    bit<16> a;
    bit<16> b;
    bit<32> c;
    bit<8> first;
    bit<8> second;
    bit<4> pad;
    bit<12> tenant;
    bit<16> port;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    port_t port;
    tenant_t tenant;
}

parser EntriesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control EntriesVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntriesIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    action_profile(4) unused;

    action first(bit<8> value) {
        hdr.h.first = value;
    }

    action second(bit<8> value) {
        hdr.h.second = value;
    }

    action assign(port_t port, tenant_t tenant) {
        hdr.h.port = (bit<16>) (bit<9>) port;
        hdr.h.tenant = (bit<12>) tenant;
    }

    table initial {
        key = {
            hdr.h.a: ternary;
            hdr.h.b: optional;
        }
        actions = {
            first;
            NoAction;
        }
        size = 16;
        largest_priority_wins = false;
        entries = {
            priority = 10: (0x0110 &&& 0xfff0, 5) : first(1);
            priority = 20: (0x0100 &&& 0xff00, _) : first(2);
        }
    }

    table fixed {
        key = {
            hdr.h.a: range;
            hdr.h.b: exact;
            hdr.h.c: lpm;
        }
        actions = {
            second;
            NoAction;
        }
        const entries = {
            (0x0100..0x01ff, 5, 0x0a000000 &&& 0xff000000) : second(1);
            (0x0000..0x7fff, 5, _) : second(2);
        }
    }

    table translated {
        key = {
            meta.port: ternary;
            meta.tenant: exact;
        }
        actions = {
            assign;
            NoAction;
        }
        size = 64;
    }

    apply {
        initial.apply();
        fixed.apply();
        meta.port = (port_t) standard_metadata.ingress_port;
        meta.tenant = (tenant_t) hdr.h.tenant;
        translated.apply();
        if (hdr.h.a == 0xd1d1) {
            digest<kinds_t>(1, {hdr.h.b == 5, standard_metadata.parser_error, color_t.BLUE,
                                level_t.HIGH, -5, meta.tenant});
            digest(2, {hdr.h.b, hdr.h.c});
        }
    }
}

control EntriesEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    apply { }
}

control EntriesComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntriesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
    }
}

V1Switch(EntriesParser(), EntriesVerifyChecksum(), EntriesIngress(), EntriesEgress(),
         EntriesComputeChecksum(), EntriesDeparser()) main;
