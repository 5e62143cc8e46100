/* Packets that the switch answers itself: they go back to where they came from. */
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
    action drained(in bitmap_t touched) {
        hdr.libra.op = OP_DRAINED;
        hdr.drained.setValid();
        hdr.drained.row = hdr.drain.row;
        hdr.drained.format = hdr.drain.format;
        hdr.drained.hops = hdr.drain.hops;
        hdr.drained.used = touched;
        hdr.drain.setInvalid();
        hdr.udp.length = UDP_BYTES + LIBRA_BYTES + DRAINED_BYTES;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + DRAINED_BYTES;
        turn_around();
    }
    action add_length(bit<16> bytes) {
        hdr.udp.length = hdr.udp.length + bytes;
        hdr.ipv4.total_len = hdr.ipv4.total_len + bytes;
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

    apply {
        if (md.reason == REASON_AGGREGATED) {
            ack(0);
        } else if (md.reason == REASON_DUPLICATE) {
            ack(FLAG_DUPLICATE);
        } else if (md.reason == REASON_DRAINED) {
            bit<16> cell_bytes = (hdr.drain.format == FORMAT_DIGITS) ? 16w8 : 16w4;
            bit<16> bytes = 0;
            bitmap_t touched = 0;
            EACH_LANE(CELL_LENGTH)
            drained(touched);
            add_length(bytes);
        } else if (md.reason == REASON_PROBED) {
            probed();
        }
    }
}

#endif
