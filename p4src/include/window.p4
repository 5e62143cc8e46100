/* What a GRAD has to pass before its first cell is touched, besides the exponents. */
#ifndef LIBRA_WINDOW_P4
#define LIBRA_WINDOW_P4

/* The lowest open round of each job, with its epoch. It and the next one are open, one for each
 * bank, so that no packet can reach the cells of another round. The server's UPDATE of a round says
 * that it is committed; until the first one of an epoch, any round may be. */
control Open(in headers_t hdr, inout metadata_t md) {
    register<tag_t>(JOBS) open;
    tag_t first;
    bit<20> ahead;

    apply {
        open.read(first, (bit<32>)md.job_slot);
        ahead = hdr.libra.tag[19:0] - first[19:0];
        if (hdr.libra.op == OP_UPDATE) {
            if (first[31:20] != md.epoch || hdr.libra.tag[19:0] >= first[19:0]) {
                open.write((bit<32>)md.job_slot, hdr.libra.tag + 1);
            }
        } else if (first[31:20] == md.epoch) {
            if (hdr.libra.tag[19:0] < first[19:0]) {
                md.reason = REASON_STALE;
            } else if (ahead > 1) {
                md.reason = REASON_EARLY;
            }
        }
    }
}

/* seen[worker][seq mod W] holds (epoch, seq): a packet counts if it is newer. */
control Window(in headers_t hdr, inout metadata_t md) {
    register<bit<44>>(MEMBERS * WINDOW) seen;
    bit<44> last;
    bit<32> index;

    apply {
        index = (bit<32>)(md.job_slot ++ md.rank ++ hdr.libra.seq[WINDOW_BITS - 1:0]);
        seen.read(last, index);
        if (last[43:32] == md.epoch && (int<32>)(hdr.libra.seq - last[31:0]) <= 0) {
            md.reason = REASON_DUPLICATE;
        } else {
            seen.write(index, md.epoch ++ hdr.libra.seq);
        }
    }
}

#endif
