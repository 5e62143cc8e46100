/* Whether a row lies outside of the job's block. */
#ifndef LIBRA_TNA_ANY_ROW_P4
#define LIBRA_TNA_ANY_ROW_P4

/* ~(rows of the job - 1) has ones above its lowest one: a row with any bit there is outside. */
#define OUTSIDE(bit_of_row) (bit_of_row &&& bit_of_row, 0 &&& bit_of_row): outside();

control AnyRow(in grad_h grad, inout ingress_metadata_t md) {
#if LANES == 16
    action level1() {
        md.or0 = grad.row0 | grad.row1;
        md.or1 = grad.row2 | grad.row3;
        md.or2 = grad.row4 | grad.row5;
        md.or3 = grad.row6 | grad.row7;
        md.or4 = grad.row8 | grad.row9;
        md.or5 = grad.row10 | grad.row11;
        md.or6 = grad.row12 | grad.row13;
        md.or7 = grad.row14 | grad.row15;
    }
    action level2() {
        md.or0 = md.or0 | md.or1;
        md.or2 = md.or2 | md.or3;
        md.or4 = md.or4 | md.or5;
        md.or6 = md.or6 | md.or7;
    }
    action level3() {
        md.or0 = md.or0 | md.or2;
        md.or4 = md.or4 | md.or6;
    }
    action level4() {
        md.rows = md.or0 | md.or4;
    }
#else
    action level1() {
        md.or0 = grad.row0 | grad.row1;
        md.or1 = grad.row2 | grad.row3;
        md.or2 = grad.row4 | grad.row5;
        md.or3 = grad.row6 | grad.row7;
    }
    action level2() {
        md.or0 = md.or0 | md.or1;
        md.or2 = md.or2 | md.or3;
    }
    action level4() {
        md.rows = md.or0 | md.or2;
    }
#endif

    apply {
        level1();
        level2();
#if LANES == 16
        level3();
#endif
        level4();
    }
}

control InBlock(inout ingress_metadata_t md) {
    action outside() {
        md.unknown_row = 1;
    }
    table blocks {
        key = {
            md.rows: ternary;
            md.row_mask: ternary;
        }
        actions = { outside; NoAction; }
        size = 16;
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
