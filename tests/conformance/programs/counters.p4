// Indirect and direct counters, of packets, bytes and both; indices out of range count nothing.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> index; bit<8> key; }
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets) packets_only;
    counter(4, CounterType.bytes) bytes_only;
    counter(4, CounterType.packets_and_bytes) both;
    direct_counter(CounterType.packets_and_bytes) per_entry;
    direct_counter(CounterType.packets) explicit;
    action seen() { }
    action counted() { explicit.count(); }
    table entries {
        key = { hdr.h.key : exact; }
        actions = { seen; }
        const default_action = seen();
        counters = per_entry;
    }
    table prefixes {
        key = { hdr.h.key : lpm; }
        actions = { counted; NoAction; }
        const default_action = NoAction();
        counters = explicit;
    }
    apply {
        std.egress_spec = 2;
        packets_only.count((bit<32>)hdr.h.index);
        bytes_only.count((bit<32>)hdr.h.index);
        both.count((bit<32>)hdr.h.index);
        entries.apply();
        prefixes.apply();
    }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
