// Meters: indirect ones of packets and of bytes, and a direct one.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> index; bit<8> key; bit<8> packets; bit<8> octets; bit<8> entry; }
struct headers_t { h_t h; }
struct metadata_t { bit<2> packets; bit<2> octets; bit<2> entry; }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(4, MeterType.packets) by_packets;
    meter(4, MeterType.bytes) by_bytes;
    direct_meter<bit<2>>(MeterType.packets) per_entry;
    action seen() { per_entry.read(meta.entry); }
    table entries {
        key = { hdr.h.key : exact; }
        actions = { seen; NoAction; }
        const default_action = NoAction();
        meters = per_entry;
    }
    apply {
        std.egress_spec = 2;
        by_packets.execute_meter((bit<32>)hdr.h.index, meta.packets);
        by_bytes.execute_meter((bit<32>)hdr.h.index, meta.octets);
        entries.apply();
        hdr.h.packets = (bit<8>)meta.packets;
        hdr.h.octets = (bit<8>)meta.octets;
        hdr.h.entry = (bit<8>)meta.entry;
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
