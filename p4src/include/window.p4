/* What a GRAD has to pass before its first cell is touched, besides the exponents. Each control
 * changes its register only for a packet that passes, and a packet that passes `Newest` but not
 * `Window` was counted before, so that its tag changes nothing. */
#ifndef LIBRA_WINDOW_P4
#define LIBRA_WINDOW_P4

/* The newest tag of the job and bank: rounds do not wrap within an epoch. */
control Newest(in headers_t hdr, inout metadata_t md) {
    register<tag_t>(JOBS * 2) newest;
    tag_t last;
    bit<32> index;

    apply {
        index = (bit<32>)(md.job_slot ++ hdr.libra.tag[0:0]);
        newest.read(last, index);
        if (last[31:20] == md.epoch && hdr.libra.tag[19:0] < last[19:0]) {
            md.reason = REASON_STALE;
        } else {
            newest.write(index, hdr.libra.tag);
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
