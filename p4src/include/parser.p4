#ifndef LIBRA_PARSER_P4
#define LIBRA_PARSER_P4

#define EXTRACT_DIGITS(i) packet.extract(hdr.digits[i]);

parser LibraParser(packet_in packet, out headers_t hdr, inout metadata_t md,
                   inout standard_metadata_t standard_metadata) {
    bit<8> hops_left;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        /* No fragments: the lowest flag says that more follow. */
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            LIBRA_PORT: parse_libra;
            default: accept;
        }
    }
    state parse_libra {
        packet.extract(hdr.libra);
        transition select(hdr.libra.version, hdr.libra.op, hdr.udp.length) {
            (LIBRA_VERSION, OP_GRAD, UDP_BYTES + LIBRA_BYTES + GRAD_BYTES): parse_grad;
            (LIBRA_VERSION, OP_DRAIN, _): parse_drain;
            (LIBRA_VERSION, OP_PARTIAL, _): parse_partial;
            (LIBRA_VERSION, OP_PROBE, UDP_BYTES + LIBRA_BYTES + PROBE_BYTES): parse_probe;
            default: accept;
        }
    }
    state parse_grad {
        packet.extract(hdr.grad);
        transition accept;
    }
    state parse_drain {
        packet.extract(hdr.drain);
        hops_left = hdr.drain.hops;
        transition select(hops_left) {
            0: accept;
            default: parse_hop;
        }
    }
    state parse_partial {
        packet.extract(hdr.drained);
        EACH_LANE(EXTRACT_DIGITS)
        hops_left = hdr.drained.hops;
        transition select(hops_left) {
            0: accept;
            default: parse_hop;
        }
    }
    state parse_hop {
        packet.extract(hdr.hops.next);
        hops_left = hops_left - 1;
        transition select(hops_left) {
            0: accept;
            default: parse_hop;
        }
    }
    state parse_probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control LibraDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.libra);
        packet.emit(hdr.grad);
        packet.emit(hdr.drain);
        packet.emit(hdr.probe);
        packet.emit(hdr.drained);
        packet.emit(hdr.digits);
        packet.emit(hdr.floats);
        packet.emit(hdr.hops);
    }
}

#endif
