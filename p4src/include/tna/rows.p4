/* The rows of a packet, and whether one lies outside of the job's block.
 *
 * Bits that are set in a row of each part of the lanes (config.p4) are found by a tree of ORs, a
 * stage for each level. Rows of lanes that are not in use have to be 0. */
#ifndef LIBRA_TNA_ROWS_P4
#define LIBRA_TNA_ROWS_P4

#define OR_ROWS(to, a, b) md.or##to = PLACE##a.index##a | PLACE##b.index##b;
#define OR_ORS(a, b) md.or##a = md.or##a | md.or##b;
#define OR_ROW(to, a) md.or##to = md.or##to | PLACE##a.index##a;

/* ~(rows of the job - 1) has ones above its lowest one: a row with any bit there is outside. */
#if ROW_PARTS == 3
#define OUTSIDE(bit_of_row) \
    (bit_of_row &&& bit_of_row, _, _, 0 &&& bit_of_row): outside(); \
    (_, bit_of_row &&& bit_of_row, _, 0 &&& bit_of_row): outside(); \
    (_, _, bit_of_row &&& bit_of_row, 0 &&& bit_of_row): outside();
#else
#define OUTSIDE(bit_of_row) \
    (bit_of_row &&& bit_of_row, _, 0 &&& bit_of_row): outside(); \
    (_, bit_of_row &&& bit_of_row, 0 &&& bit_of_row): outside();
#endif

control AnyRow(in ingress_headers_t hdr, inout ingress_metadata_t md) {
#if ROW_PARTS == 3
    action level1() {
        OR_ROWS(0, 0, 1) OR_ROWS(2, 2, 3) OR_ROWS(4, 4, 5)
        OR_ROWS(1, 6, 7) OR_ROWS(3, 8, 9)
        OR_ROWS(6, 11, 12) OR_ROWS(7, 13, 14)
    }
    action level2() {
        OR_ORS(0, 2) OR_ORS(1, 3) OR_ORS(6, 7)
    }
    action level3() {
        OR_ORS(0, 4) OR_ROW(1, 10) OR_ROW(6, 15)
    }
#elif LANES == 16
    action level1() {
        OR_ROWS(0, 0, 1) OR_ROWS(2, 2, 3) OR_ROWS(4, 4, 5) OR_ROWS(6, 6, 7)
        OR_ROWS(1, 8, 9) OR_ROWS(3, 10, 11) OR_ROWS(5, 12, 13) OR_ROWS(7, 14, 15)
    }
    action level2() {
        OR_ORS(0, 2) OR_ORS(4, 6) OR_ORS(1, 3) OR_ORS(5, 7)
    }
    action level3() {
        OR_ORS(0, 4) OR_ORS(1, 5)
    }
#else
    action level1() {
        OR_ROWS(0, 0, 1) OR_ROWS(2, 2, 3) OR_ROWS(1, 4, 5) OR_ROWS(3, 6, 7)
    }
    action level2() {
        OR_ORS(0, 2) OR_ORS(1, 3)
    }
#endif

    apply {
        level1();
        level2();
#if LANES == 16
        level3();
#endif
    }
}

control InBlock(inout ingress_metadata_t md) {
    action outside() {
        md.unknown_row = 1;
    }
    table blocks {
        key = {
            md.or0: ternary;
            md.or1: ternary;
#if ROW_PARTS == 3
            md.or6: ternary;
#endif
            md.row_mask: ternary;
        }
        actions = { outside; NoAction; }
        size = 16 * ROW_PARTS;
        const default_action = NoAction();
        const entries = {
            OUTSIDE(0x8000)
            OUTSIDE(0x4000)
            OUTSIDE(0x2000)
            OUTSIDE(0x1000)
            OUTSIDE(0x0800)
            OUTSIDE(0x0400)
            OUTSIDE(0x0200)
            OUTSIDE(0x0100)
            OUTSIDE(0x0080)
            OUTSIDE(0x0040)
            OUTSIDE(0x0020)
            OUTSIDE(0x0010)
            OUTSIDE(0x0008)
            OUTSIDE(0x0004)
            OUTSIDE(0x0002)
            OUTSIDE(0x0001)
        }
    }

    apply {
        blocks.apply();
    }
}

#endif
