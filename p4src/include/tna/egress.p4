/* The egress: the lanes that the ingress has no room for, and whatever is answered. */
#ifndef LIBRA_TNA_EGRESS_P4
#define LIBRA_TNA_EGRESS_P4

#define EXTRACT_HEADERS \
    packet.extract(hdr.ethernet); \
    packet.extract(hdr.ipv4); \
    packet.extract(hdr.udp); \
    packet.extract(hdr.libra);
#define LAP_EGRESS_INDEX(i) hdr.lanes.index##i = hdr.bridge.index;
#define EXTRACT_EGRESS_DIGITS(i) packet.extract(hdr.digits##i);
#define EXTRACT_EGRESS_LANE(i) \
    packet.extract(hdr.mark##i); \
    packet.extract(hdr.digits##i);

parser EgressParser(packet_in packet, out egress_headers_t hdr, out egress_metadata_t md,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition select(packet.lookahead<act_t>()) {
            ACT_PASS: parse_bridge;
            ACT_ADD: parse_added;
            ACT_DUPLICATE: parse_duplicate;
            ACT_DRAIN: parse_drain;
            ACT_PROBED: parse_probe;
            ACT_READ_HIGH: parse_lap;
            ACT_READ_LOW: parse_lap;
            default: parse_bridge;
        }
    }
    state parse_bridge {
        packet.extract(hdr.bridge);
        transition accept;
    }
    state parse_added {
        packet.extract(hdr.bridge);
#if EGRESS_LANES > 0
        packet.extract(hdr.lanes);
#endif
        EXTRACT_HEADERS
        EACH_EGRESS_LANE(EXTRACT_EGRESS_DIGITS)
        transition accept;
    }
    state parse_duplicate {
        packet.extract(hdr.bridge);
        EXTRACT_HEADERS
        transition accept;
    }
    state parse_drain {
        packet.extract(hdr.bridge);
        EXTRACT_HEADERS
        packet.extract(hdr.drain);
        transition accept;
    }
    state parse_probe {
        packet.extract(hdr.bridge);
        EXTRACT_HEADERS
        packet.extract(hdr.probe);
        transition accept;
    }
    state parse_lap {
        packet.extract(hdr.bridge);
#if EGRESS_LANES > 0
        hdr.lanes.setValid();
        EACH_EGRESS_LANE(LAP_EGRESS_INDEX)
        EXTRACT_HEADERS
        packet.extract(hdr.lap);
        EACH_EGRESS_LANE(EXTRACT_EGRESS_LANE)
#endif
        transition accept;
    }
}

#define EGRESS_LANE_INSTANCES(i) \
    HighDigit() high##i; \
    LowDigit() low##i;

#define EGRESS_LANE(i) \
    high##i.apply(hdr.bridge.lap, hdr.bridge.fresh, hdr.lanes.used[i:i], hdr.lanes.lane##i[7:7], \
                  hdr.libra.tag, hdr.lanes.index##i, hdr.digits##i.d1); \
    low##i.apply(hdr.bridge.lap, hdr.bridge.fresh, hdr.lanes.used[i:i], hdr.lanes.lane##i[7:7], \
                 hdr.libra.tag, hdr.lanes.index##i, hdr.mark##i.touched, hdr.digits##i.d0);

#define DROP_DIGITS(i) hdr.digits##i.setInvalid();

control LibraEgress(inout egress_headers_t hdr, inout egress_metadata_t md,
                    in egress_intrinsic_metadata_t eg_intr_md,
                    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    EACH_EGRESS_LANE(EGRESS_LANE_INSTANCES)

    /* What the switch answers goes back to where it came from. */
    action turn_around() {
        mac_addr_t mac = hdr.ethernet.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        ipv4_addr_t address = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        bit<16> port = hdr.udp.src_port;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = port;
        hdr.udp.checksum = 0;
        hdr.ipv4.ttl = 63;
    }
    action ack(bit<8> flags) {
        hdr.libra.op = OP_ACK;
        hdr.libra.flags = flags;
        hdr.udp.length = UDP_BYTES + LIBRA_BYTES;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES;
        turn_around();
    }
    action probed() {
        hdr.libra.flags = FLAG_REPLY;
        hdr.probe.program = PROGRAM_VERSION;
        hdr.probe.lanes = LANES;
        hdr.probe.window = WINDOW;
        hdr.probe.epoch = hdr.bridge.epoch;
        hdr.probe.rows = 1 << ROW_BITS;
        hdr.probe.reserved = 0;
        turn_around();
    }
    action begin_laps() {
        hdr.libra.op = OP_LAP;
        hdr.lap.setValid();
        hdr.lap.next = NEXT_FIRST;
        hdr.lap.row = hdr.drain.row;
        hdr.drain.setInvalid();
    }
    /* The copy of a DRAIN asks for the next row. */
    action next_row() {
        hdr.drain.row = hdr.drain.row + 1;
        hdr.drain.rows = hdr.drain.rows - 1;
    }

    apply {
        EACH_EGRESS_LANE(EGRESS_LANE)

        if (hdr.bridge.act == ACT_ADD) {
            ack(0);
            EACH_EGRESS_LANE(DROP_DIGITS)
        } else if (hdr.bridge.act == ACT_DUPLICATE) {
            ack(FLAG_DUPLICATE);
        } else if (hdr.bridge.act == ACT_PROBED) {
            probed();
        } else if (hdr.bridge.act == ACT_DRAIN) {
            if (eg_intr_md.egress_rid == 0) {
                begin_laps();
            } else if (hdr.drain.rows == 1) {
                eg_dprsr_md.drop_ctl = 1;
            } else {
                next_row();
            }
        }
        hdr.bridge.setInvalid();
#if EGRESS_LANES > 0
        hdr.lanes.setInvalid();
#endif
    }
}

#define EMIT_EGRESS_LANE(i) \
    packet.emit(hdr.mark##i); \
    packet.emit(hdr.digits##i);

control EgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t md,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;

    apply {
        hdr.ipv4.checksum = ipv4_checksum.update({
            hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len,
            hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl,
            hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.libra);
        packet.emit(hdr.drain);
        packet.emit(hdr.probe);
        packet.emit(hdr.lap);
        EACH_EGRESS_LANE(EMIT_EGRESS_LANE)
    }
}

#endif
