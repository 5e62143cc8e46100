#ifndef LIBRA_TNA_INGRESS_PARSER_P4
#define LIBRA_TNA_INGRESS_PARSER_P4

/* A lane works on copies of what the packet has: the packet itself stays as it is, for it may have
 * to go on to the server. */
#define COPY_LANE(i) \
    hdr.digits##i.setValid(); \
    hdr.digits##i.d1 = 0; \
    hdr.digits##i.d0 = hdr.grad.grad##i; \
    PLACE##i.lane##i = hdr.grad.grad##i[31:24]; \
    PLACE##i.index##i = hdr.grad.row##i;
#define DRAIN_INDEX(i) PLACE##i.index##i = hdr.drain.row;
#define LAP_INDEX(i) PLACE##i.index##i = hdr.lap.row;
#define EXTRACT_LANE(i) \
    packet.extract(hdr.mark##i); \
    packet.extract(hdr.digits##i);

/* On the last lap only cells that were touched stay in the packet. */
#define SEND_LANE(i, next) \
    state send##i { \
        transition select(packet.lookahead<bit<8>>()) { \
            0: skip##i; \
            default: keep##i; \
        } \
    } \
    state skip##i { \
        packet.advance(72); \
        transition next; \
    } \
    state keep##i { \
        packet.advance(8); \
        packet.extract(hdr.digits##i); \
        transition next; \
    }

/* Metadata are 0 unless they are set; each is set once on a path. */
@pa_auto_init_metadata
parser IngressParser(packet_in packet, out ingress_headers_t hdr, out ingress_metadata_t md,
                     out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        hdr.bridge.setValid();
#if EGRESS_LANES > 0
        hdr.lanes.setValid();
#endif
        hdr.bridge.epoch = 0;
        /* The recirculation port of each pipe. */
        transition select(ig_intr_md.ingress_port) {
            RECIRCULATION &&& 0x7f: from_this_pipe;
            default: parse_ethernet;
        }
    }
    /* Only this program sends there, and only what it has seen before. */
    state from_this_pipe {
        md.recirculated = 1;
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.libra);
        transition select(hdr.libra.op) {
            OP_LAP: parse_lap;
            OP_DRAIN: parse_drain;
            OP_UPDATE: update;
            default: other;
        }
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        md.bad_checksum = (bit<1>)ipv4_checksum.verify();
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
        transition select(hdr.libra.version, hdr.libra.op, hdr.libra.flags, hdr.udp.length) {
            (LIBRA_VERSION, OP_GRAD, _, UDP_BYTES + LIBRA_BYTES + GRAD_BYTES): parse_grad;
            (LIBRA_VERSION, OP_GRAD, _, _): bad_grad;
            (LIBRA_VERSION, OP_DRAIN, _, UDP_BYTES + LIBRA_BYTES + DRAIN_BYTES): parse_drain;
            (LIBRA_VERSION, OP_PROBE, 0 &&& FLAG_REPLY,
             UDP_BYTES + LIBRA_BYTES + PROBE_BYTES): parse_probe;
            (LIBRA_VERSION, OP_UPDATE, _, _): update;
            default: other;
        }
    }
    state other {
        md.kind = KIND_LIBRA;
        transition accept;
    }
    state bad_grad {
        md.kind = KIND_BAD_GRAD;
        transition accept;
    }
    state update {
        md.kind = KIND_UPDATE;
        transition accept;
    }
    state parse_grad {
        md.kind = KIND_GRAD;
        md.aligns = 1;
        packet.extract(hdr.grad);
        EACH_LANE(COPY_LANE)
        transition accept;
    }
    state parse_drain {
        packet.extract(hdr.drain);
        md.kind = KIND_DRAIN;
        EACH_LANE(DRAIN_INDEX)
        transition accept;
    }
    state parse_probe {
        packet.extract(hdr.probe);
        md.kind = KIND_PROBE;
        transition accept;
    }
    state parse_lap {
        packet.extract(hdr.lap);
        md.kind = KIND_LAP;
        EACH_LANE(LAP_INDEX)
        transition select(hdr.lap.next) {
            NEXT_FIRST: first_lap;
            NEXT_LOW: low_lap;
            NEXT_PIPE: next_pipe;
            NEXT_SEND: send_lap;
            NEXT_MOVE: move_lap;
            default: accept;
        }
    }
    state first_lap {
        md.lap = LAP_HIGH;
        md.first_lap = 1;
        transition accept;
    }
    state low_lap {
        md.lap = LAP_LOW;
        transition parse_lanes;
    }
    state next_pipe {
        md.lap = LAP_HIGH;
        transition parse_lanes;
    }
    state move_lap {
        md.lap = LAP_MOVE;
        transition accept;
    }
    state parse_lanes {
        EACH_LANE(EXTRACT_LANE)
        transition accept;
    }
    state send_lap {
        md.lap = LAP_SEND;
        transition send0;
    }
#if LANES == 16
    SEND_LANE(0, send1) SEND_LANE(1, send2) SEND_LANE(2, send3) SEND_LANE(3, send4)
    SEND_LANE(4, send5) SEND_LANE(5, send6) SEND_LANE(6, send7) SEND_LANE(7, send8)
    SEND_LANE(8, send9) SEND_LANE(9, send10) SEND_LANE(10, send11) SEND_LANE(11, send12)
    SEND_LANE(12, send13) SEND_LANE(13, send14) SEND_LANE(14, send15) SEND_LANE(15, accept)
#else
    SEND_LANE(0, send1) SEND_LANE(1, send2) SEND_LANE(2, send3) SEND_LANE(3, send4)
    SEND_LANE(4, send5) SEND_LANE(5, send6) SEND_LANE(6, send7) SEND_LANE(7, accept)
#endif
}

#define EMIT_LANE(i) \
    packet.emit(hdr.mark##i); \
    packet.emit(hdr.digits##i);

control IngressDeparser(packet_out packet, inout ingress_headers_t hdr,
                        in ingress_metadata_t md,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Checksum() ipv4_checksum;

    apply {
        hdr.ipv4.checksum = ipv4_checksum.update({
            hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len,
            hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl,
            hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        packet.emit(hdr.bridge);
#if EGRESS_LANES > 0
        packet.emit(hdr.lanes);
#endif
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.libra);
        packet.emit(hdr.grad);
        packet.emit(hdr.drain);
        packet.emit(hdr.probe);
        packet.emit(hdr.lap);
        packet.emit(hdr.drained);
        EACH_LANE(EMIT_LANE)
    }
}

#endif
