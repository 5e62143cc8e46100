/* Alignment without variable shifts (docs/tofino.md).
 *
 * A first table turns the exponent into a shift. The significand is cut into pieces; for each, a
 * table holds what becomes of its bits under each shift, as a share of both digits. Shares of
 * different pieces have no bit in common, so that or-ing them gives the digits: the same bits as
 * those of one shift of all, for bits that a right shift drops are dropped piece by piece.
 *
 * Only the first table depends on a job's F. What the others hold is the same for every job. */
#ifndef LIBRA_SPLIT_ALIGN_P4
#define LIBRA_SPLIT_ALIGN_P4

#ifndef PIECE_BITS
#define PIECE_BITS 6
#endif

/* A shift by s bits to the left is s + 24; 0 is a magnitude of zero. */
const bit<8> SHIFT_ESCAPES = 64;
#define SHIFT_BITS 6

#define FIRST_PIECE(n, bits, width) \
    action share##n(bit<32> high, bit<32> low) { \
        d1 = high; \
        d0 = low; \
    } \
    table piece##n { \
        key = { \
            shift[SHIFT_BITS - 1:0]: exact @name("shift"); \
            bits: exact @name("piece"); \
        } \
        actions = { share##n; } \
        size = 1 << (SHIFT_BITS + width); \
        default_action = share##n(0, 0); \
    }

#define PIECE(n, bits, width) \
    action share##n(bit<32> high, bit<32> low) { \
        d1 = d1 | high; \
        d0 = d0 | low; \
    } \
    table piece##n { \
        key = { \
            shift[SHIFT_BITS - 1:0]: exact @name("shift"); \
            bits: exact @name("piece"); \
        } \
        actions = { share##n; } \
        size = 1 << (SHIFT_BITS + width); \
        default_action = share##n(0, 0); \
    }

/* The highest piece is the first; the implicit one is the bit above its own. */
control SplitAlign(in job_slot_t job_slot, in bit<8> exponent, in bit<23> fraction,
                   inout bit<8> shift, inout bit<32> d1, inout bit<32> d0) {
    action shifted(bit<8> by) {
        shift = by;
    }
    table exponents {
        key = {
            job_slot: exact;
            exponent: exact;
        }
        actions = { shifted; }
        size = 1 << (JOB_SLOT_BITS + 8);
        default_action = shifted(SHIFT_ESCAPES);
    }

#if PIECE_BITS == 8
    FIRST_PIECE(2, fraction[22:16], 7)
    PIECE(1, fraction[15:8], 8)
    PIECE(0, fraction[7:0], 8)
#elif PIECE_BITS == 6
    FIRST_PIECE(3, fraction[22:18], 5)
    PIECE(2, fraction[17:12], 6)
    PIECE(1, fraction[11:6], 6)
    PIECE(0, fraction[5:0], 6)
#elif PIECE_BITS == 4
    FIRST_PIECE(5, fraction[22:20], 3)
    PIECE(4, fraction[19:16], 4)
    PIECE(3, fraction[15:12], 4)
    PIECE(2, fraction[11:8], 4)
    PIECE(1, fraction[7:4], 4)
    PIECE(0, fraction[3:0], 4)
#else
#error "PIECE_BITS must be 4, 6 or 8"
#endif

    apply {
        exponents.apply();
#if PIECE_BITS == 8
        piece2.apply();
        piece1.apply();
        piece0.apply();
#elif PIECE_BITS == 6
        piece3.apply();
        piece2.apply();
        piece1.apply();
        piece0.apply();
#else
        piece5.apply();
        piece4.apply();
        piece3.apply();
        piece2.apply();
        piece1.apply();
        piece0.apply();
#endif
    }
}

#endif
