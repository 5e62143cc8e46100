/* The second cells of a row, which are in other lanes than the first ones. A packet reaches a lane
 * once; so they are read in a first pass, brought to the lanes of the first cells, and added to these
 * in a second one. */
#ifndef LIBRA_PARTNER_P4
#define LIBRA_PARTNER_P4

/* Where the second cells of a DRAIN's row are: their row, and how their lanes differ from those of
 * the first ones; a mask of 0 says that there are none. In the place of a sequence number. */
#define SECOND_ROW hdr.libra.seq[31:16]
#define SECOND_MASK hdr.libra.seq[15:0]

/* Lanes that differ by `distance`, a power of two, change places; i is the lower one of two. */
#define EXCHANGE(i, distance) \
    if ((i / distance) % 2 == 0) { \
        held = hdr.digits[i]; \
        hdr.digits[i] = hdr.digits[(i + distance) % LANES]; \
        hdr.digits[(i + distance) % LANES] = held; \
    }
#define EXCHANGE_1(i) EXCHANGE(i, 1)
#define EXCHANGE_2(i) EXCHANGE(i, 2)
#define EXCHANGE_4(i) EXCHANGE(i, 4)
#define EXCHANGE_8(i) EXCHANGE(i, 8)
#define EXCHANGE_16(i) EXCHANGE(i, 16)
#define EXCHANGE_32(i) EXCHANGE(i, 32)

#define KEEP_DIGITS(i) \
    if (hdr.digits[i].isValid()) { \
        md.partners[i:i] = 1; \
        md.partner##i = hdr.digits[i].d1 ++ hdr.digits[i].d0; \
    }

control Partner(inout headers_t hdr, inout metadata_t md) {
    digits_h held;

    action exchange_1() { EACH_LANE(EXCHANGE_1) }
    action exchange_2() { EACH_LANE(EXCHANGE_2) }
    action exchange_4() { EACH_LANE(EXCHANGE_4) }
#if LANE_BITS > 3
    action exchange_8() { EACH_LANE(EXCHANGE_8) }
#endif
#if LANE_BITS > 4
    action exchange_16() { EACH_LANE(EXCHANGE_16) }
#endif
#if LANE_BITS > 5
    action exchange_32() { EACH_LANE(EXCHANGE_32) }
#endif

    apply {
        /* Lane l goes to lane l XOR mask, bit by bit of the mask. */
        if (hdr.libra.seq[0:0] == 1) { exchange_1(); }
        if (hdr.libra.seq[1:1] == 1) { exchange_2(); }
        if (hdr.libra.seq[2:2] == 1) { exchange_4(); }
#if LANE_BITS > 3
        if (hdr.libra.seq[3:3] == 1) { exchange_8(); }
#endif
#if LANE_BITS > 4
        if (hdr.libra.seq[4:4] == 1) { exchange_16(); }
#endif
#if LANE_BITS > 5
        if (hdr.libra.seq[5:5] == 1) { exchange_32(); }
#endif
        EACH_LANE(KEEP_DIGITS)
    }
}

#endif
