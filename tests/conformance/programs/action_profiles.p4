// Action profiles: members that entries share, and groups of them from which a hash chooses.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> flow; bit<8> plain; bit<8> chosen; }
struct headers_t { h_t h; }
struct metadata_t { }
#include "one_header.inc"

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action_profile(8) members;
    action_selector(HashAlgorithm.identity, 8, 8) groups;
    action set_plain(bit<8> value) { hdr.h.plain = value; }
    action choose(bit<8> value, bit<9> port) { hdr.h.chosen = value; std.egress_spec = port; }
    table direct {
        key = { hdr.h.key : exact; }
        actions = { set_plain; NoAction; }
        default_action = NoAction();
        implementation = members;
    }
    table hashed {
        key = { hdr.h.key : ternary; hdr.h.flow : selector; }
        actions = { choose; NoAction; }
        default_action = NoAction();
        implementation = groups;
    }
    apply { std.egress_spec = 2; direct.apply(); hashed.apply(); }
}

V1Switch(P(), NoVerify(), I(), NoEgress(), NoUpdate(), D()) main;
