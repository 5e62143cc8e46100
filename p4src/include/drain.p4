/* The sums of a row: asked for by the job's server (DRAIN), or passed on by the switch before this
 * one (PARTIAL), to be added to. Reading changes nothing. */
#ifndef LIBRA_DRAIN_P4
#define LIBRA_DRAIN_P4

/* What is carried stays where a cell was touched; before second cells are read, it stays in the
 * packet, which is parsed anew in the second pass. */
#define LEAVE_CARRIED(i) \
    if (md.again == 1 || hdr.drained.used[i:i] == 0) { \
        hdr.digits[i].setInvalid(); \
    }

control Drain(inout headers_t hdr, inout metadata_t md,
              inout standard_metadata_t standard_metadata, inout row_t row) {
    bit<2> asking;
    bit<16> rows;
    bit<16> bytes;

    action of_server() {
        asking = ROLE_SERVER;
        rows = hdr.drain.rows;
        bytes = DRAIN_BYTES;
        hdr.drained.setValid();
        hdr.drained.row = hdr.drain.row;
        hdr.drained.format = hdr.drain.format;
        hdr.drained.hops = hdr.drain.hops;
        hdr.drained.used = 0;
        hdr.drain.setInvalid();
    }
    action of_switch() {
        asking = ROLE_SWITCH;
        rows = 1;
        bytes = PARTIAL_BYTES;
    }

    apply {
        if (hdr.drain.isValid()) {
            of_server();
        } else {
            of_switch();
        }
        bytes = bytes + UDP_BYTES + LIBRA_BYTES + ((bit<16>)hdr.drained.hops << 2);
        if (md.role != asking || hdr.libra.tag[31:20] != md.epoch) {
            md.reason = REASON_DRAIN_REFUSED;
        } else if (((hdr.drained.row | SECOND_ROW) & ~(bit<16>)md.row_mask) != 0) {
            md.reason = REASON_UNKNOWN_ROW;
        } else if (rows == 0 || hdr.drained.hops > MAX_HOPS || hdr.udp.length != bytes
                   || standard_metadata.parser_error != error.NoError || SECOND_MASK >= LANES
                   || hdr.drained.format > FORMAT_FLOAT32) {
            md.reason = REASON_MALFORMED;
        } else {
            md.lanes_do = LANES_READ_DIGITS;
            if (SECOND_MASK != 0 && standard_metadata.instance_type != INSTANCE_RESUBMITTED) {
                md.again = 1;
                row = md.row_base | hdr.libra.seq[ROW_BITS + 15:16];
            } else {
                md.reason = REASON_DRAINED;
                row = md.row_base | hdr.drained.row[ROW_BITS - 1:0];
                if (hdr.drained.format == FORMAT_FLOAT32 && hdr.drained.hops == 0) {
                    md.lanes_do = LANES_READ_FLOAT32;
                }
                if (rows > 1) {
                    clone_preserving_field_list(CloneType.I2E, DRAIN_SESSION, KEEP_NOTHING);
                }
            }
            if (asking == ROLE_SWITCH) {
                EACH_LANE(LEAVE_CARRIED)
            }
        }
    }
}

#endif
