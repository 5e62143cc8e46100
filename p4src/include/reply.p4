/* Packets that the switch answers itself: they go back to where they came from, or a row on to the
 * next switch. */
#ifndef LIBRA_REPLY_P4
#define LIBRA_REPLY_P4

control Reply(inout headers_t hdr, in metadata_t md) {
    action turn_around() {
        ipv4_addr_t address = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        hdr.ipv4.ttl = 64;
        bit<16> port = hdr.udp.src_port;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = port;
        hdr.udp.checksum = 0;
    }
    action ack(bit<8> flags) {
        hdr.libra.op = OP_ACK;
        hdr.libra.flags = flags;
        hdr.grad.setInvalid();
        hdr.udp.length = UDP_BYTES + LIBRA_BYTES;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES;
        turn_around();
    }
    /* The sums of all switches: what goes to the server. */
    action drained(in bitmap_t touched, in bit<16> bytes) {
        hdr.libra.op = OP_DRAINED;
        hdr.drained.used = touched;
        hdr.udp.length = UDP_BYTES + LIBRA_BYTES + DRAINED_BYTES + bytes;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + DRAINED_BYTES + bytes;
        turn_around();
        hdr.ipv4.dst = md.server;
    }
    /* The sums so far: the next switch adds its own. The ports stay those of the request. */
    action partial(in bitmap_t touched) {
        hdr.libra.op = OP_PARTIAL;
        hdr.drained.used = touched;
        hdr.drained.hops = hdr.drained.hops - 1;
        bit<16> bytes = PARTIAL_BYTES + ((bit<16>)hdr.drained.hops << 2);
        hdr.udp.length = UDP_BYTES + LIBRA_BYTES + bytes;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + bytes;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.hops[0].address;
        hdr.ipv4.ttl = 64;
        hdr.udp.checksum = 0;
        hdr.hops.pop_front(1);
    }
    action probed() {
        hdr.libra.flags = FLAG_REPLY;
        hdr.probe.program = PROGRAM_VERSION;
        hdr.probe.lanes = LANES;
        hdr.probe.window = WINDOW;
        hdr.probe.epoch = (bit<16>)md.epoch;
        hdr.probe.rows = 1 << ROW_BITS;
        hdr.probe.reserved = 0;
        turn_around();
    }

#define CELL_LENGTH(i) \
    if (hdr.digits[i].isValid() || hdr.floats[i].isValid()) { \
        touched[i:i] = 1; \
        bytes = bytes + cell_bytes; \
    }

/* All lanes are there between switches, which parse one fixed header. */
#define FILL_LANE(i) \
    if (!hdr.digits[i].isValid()) { \
        hdr.digits[i].setValid(); \
        hdr.digits[i].d1 = 0; \
        hdr.digits[i].d0 = 0; \
    }

    apply {
        if (md.reason == REASON_AGGREGATED) {
            ack(0);
        } else if (md.reason == REASON_DUPLICATE) {
            ack(FLAG_DUPLICATE);
        } else if (md.reason == REASON_DRAINED) {
            bit<16> cell_bytes = (hdr.drained.format == FORMAT_DIGITS) ? 16w8 : 16w4;
            bit<16> bytes = 0;
            bitmap_t touched = 0;
            EACH_LANE(CELL_LENGTH)
            if (hdr.drained.hops == 0) {
                drained(touched, bytes);
            } else {
                EACH_LANE(FILL_LANE)
                partial(touched);
            }
        } else if (md.reason == REASON_PROBED) {
            probed();
        }
    }
}

#endif
