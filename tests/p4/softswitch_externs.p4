// Registers, hashes, random numbers, log messages and assertions.
#include <core.p4>
#include <v1model.p4>

header command_t {
    bit<8>  op;
    bit<32> index;
    bit<96> value;
    bit<64> result;
}

struct headers_t {
    command_t command;
}

struct metadata_t { }

parser ExternsParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.command);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ExternsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<96>>(16) wide;
    register<bit<5>>(16) narrow;

    apply {
        std.egress_spec = 2;
        bit<96> old = 0;
        bit<5> small = 0;
        if (hdr.command.op == 1) {
            wide.read(old, hdr.command.index);
            wide.write(hdr.command.index, old + hdr.command.value);
            hdr.command.value = old;
        } else if (hdr.command.op == 2) {
            narrow.read(small, hdr.command.index);
            narrow.write(hdr.command.index, small + (bit<5>)hdr.command.value);
            hdr.command.value = (bit<96>)small;
        } else if (hdr.command.op == 3) {
            hash(hdr.command.result, HashAlgorithm.crc32, 64w0,
                 { hdr.command.index, hdr.command.value }, 64w0x100000000);
        } else if (hdr.command.op == 4) {
            hash(hdr.command.result, HashAlgorithm.crc16, 64w10,
                 { hdr.command.index, hdr.command.value }, 64w1000);
        } else if (hdr.command.op == 5) {
            random(hdr.command.result, 64w100, 64w109);
        } else if (hdr.command.op == 6) {
            log_msg("index {} value {}", { hdr.command.index, hdr.command.value });
        } else if (hdr.command.op == 7) {
            assert(hdr.command.index == 7);
        } else if (hdr.command.op == 8) {
            hdr.command.result = (bit<64>)std.ingress_global_timestamp;
        } else if (hdr.command.op == 9) {
            exit;
        }
        hdr.command.op = 0xff;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control ExternsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ExternsParser(), NoChecksum(), ExternsIngress(), NoEgress(), NoChecksum(),
         ExternsDeparser()) main;
