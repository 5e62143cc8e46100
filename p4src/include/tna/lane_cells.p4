/* The cells of a lane: two register arrays, {tag, d1} and {tag, d0}, since a stateful ALU reads
 * and writes a pair of words and puts out one. Each action compares once, reads two words of the
 * packet at most, and accesses its array once. */
#ifndef LIBRA_TNA_LANE_CELLS_P4
#define LIBRA_TNA_LANE_CELLS_P4

struct digit_t {
    bit<32> tag;
    bit<32> digit;
}

/* What both arrays can do. */
#define CELL_ACTIONS \
    RegisterAction<digit_t, bit<16>, bit<32>>(cells) add_to_cell = { \
        void apply(inout digit_t cell) { \
            if (cell.tag == tag) { \
                cell.digit = cell.digit + digit; \
            } else { \
                cell.digit = digit; \
            } \
            cell.tag = tag; \
        } \
    }; \
    RegisterAction<digit_t, bit<16>, bit<32>>(cells) subtract_from_cell = { \
        void apply(inout digit_t cell) { \
            if (cell.tag == tag) { \
                cell.digit = cell.digit - digit; \
            } else { \
                cell.digit = 0 - digit; \
            } \
            cell.tag = tag; \
        } \
    }; \
    RegisterAction<digit_t, bit<16>, bit<32>>(cells) read_cell = { \
        void apply(inout digit_t cell, out bit<32> found) { \
            found = 0; \
            if (cell.tag == tag) { \
                found = cell.digit; \
            } \
        } \
    }; \
    action add() { \
        add_to_cell.execute(index); \
    } \
    action subtract() { \
        subtract_from_cell.execute(index); \
    } \
    action read() { \
        digit = digit + read_cell.execute(index); \
    }

/* As the table `digits` of a lane is asked: which lap, whether the packet is to be added, whether
 * the lane is in use, the sign of its gradient. */
control HighDigit(in lap_t lap, in bit<1> fresh, in bit<1> used, in bit<1> sign, in tag_t tag,
                  in bit<16> index, inout bit<32> digit) {
    Register<digit_t, bit<16>>(CELLS) cells;

    CELL_ACTIONS
    table digits {
        key = {
            lap: ternary;
            fresh: ternary;
            used: ternary;
            sign: ternary;
        }
        actions = { add; subtract; read; NoAction; }
        size = 4;
        const default_action = NoAction();
        const entries = {
            (LAP_NONE, 1, 1, 0): add();
            (LAP_NONE, 1, 1, 1): subtract();
            (LAP_HIGH, _, _, _): read();
        }
    }

    apply {
        digits.apply();
    }
}

control LowDigit(in lap_t lap, in bit<1> fresh, in bit<1> used, in bit<1> sign, in tag_t tag,
                 in bit<16> index, inout bit<8> touched, inout bit<32> digit) {
    Register<digit_t, bit<16>>(CELLS) cells;

    CELL_ACTIONS
    RegisterAction<digit_t, bit<16>, bit<8>>(cells) mark_cell = {
        void apply(inout digit_t cell, out bit<8> found) {
            found = 0;
            if (cell.tag == tag) {
                found = 1;
            }
        }
    };
    action mark() {
        touched = touched | mark_cell.execute(index);
    }
    table digits {
        key = {
            lap: ternary;
            fresh: ternary;
            used: ternary;
            sign: ternary;
        }
        actions = { add; subtract; read; mark; NoAction; }
        size = 8;
        const default_action = NoAction();
        const entries = {
            (LAP_NONE, 1, 1, 0): add();
            (LAP_NONE, 1, 1, 1): subtract();
            (LAP_HIGH, _, _, _): mark();
            (LAP_LOW, _, _, _): read();
        }
    }

    apply {
        digits.apply();
    }
}

#endif
