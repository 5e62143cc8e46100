/* A lane: the exponent look-up table that aligns a gradient to fixed point, and the cells that it
 * is added to. The two halves are controls of their own because everything about a packet is
 * decided between them: it is added in all of its lanes or in none. */
#ifndef LIBRA_LANE_P4
#define LIBRA_LANE_P4

control LaneAlign(in job_slot_t job_slot, in bit<8> exponent, in bit<23> fraction,
                  out magnitude_t magnitude, inout bit<1> escape) {
    action left(bit<8> shift) {
        magnitude = ((magnitude_t)(1w1 ++ fraction)) << shift;
    }
    action right(bit<8> shift) {
        magnitude = ((magnitude_t)(1w1 ++ fraction)) >> shift;
    }
    action zero() {
        magnitude = 0;
    }
    action escapes() {
        magnitude = 0;
        escape = 1;
    }

    /* Filled by the controller from the fraction bits F of each job (design, section 3). */
    table exponents {
        key = {
            job_slot: exact;
            exponent: exact;
        }
        actions = { left; right; zero; escapes; }
        size = JOBS * 256;
        default_action = escapes();
    }

    apply {
        magnitude = 0;
        exponents.apply();
    }
}

control LaneCells(in tag_t tag, in bit<2> lanes_do, in row_t row, in bit<1> sign,
                  in magnitude_t magnitude, in bit<8> float_bias,
                  in bit<1> has_partner, in digits_t partner,
                  inout digits_h digits, inout float32_h float32) {
    register<cell_t>(CELLS) cells;
    cell_t cell;
    bit<32> index;
    bit<32> d1;
    bit<32> d0;
    bit<56> sum;
    bit<1> negative;
    bit<8> exponent;

    action find() {
        index = (bit<32>)(tag[0:0] ++ row);
        cells.read(cell, index);
    }
    action split() {
        d1 = (bit<32>)magnitude[47:24];
        d0 = (bit<32>)magnitude[23:0];
    }
    action split_negative() {
        d1 = -(bit<32>)magnitude[47:24];
        d0 = -(bit<32>)magnitude[23:0];
    }
    action begin_with_partner() {
        d1 = partner[63:32];
        d0 = partner[31:0];
    }
    /* What the switches before this one hold of the row. */
    action add_carried() {
        d1 = d1 + digits.d1;
        d0 = d0 + digits.d0;
    }
    action accumulate() {
        d1 = d1 + cell[63:32];
        d0 = d0 + cell[31:0];
    }
    action store() {
        cells.write(index, tag ++ d1 ++ d0);
    }

    action read_digits() {
        digits.setValid();
        digits.d1 = d1;
        digits.d0 = d0;
    }

    /* Leading one: shifts it to bit 55 and tells the exponent of the result. */
    action position(bit<8> shift, bit<8> n) {
        sum = sum << shift;
        exponent = n + float_bias;
    }
    table leading_one {
        key = { sum: lpm; }
        actions = { position; NoAction; }
        const default_action = NoAction();
        const entries = {
            LEADING_ONE_ENTRIES
        }
    }
    action join() {
        digits.setInvalid();
        float32.setValid();
        float32.value = 0;
        exponent = 0;
        sum = (bit<56>)(((int<56>)(int<32>)d1 << 24) + (int<56>)(int<32>)d0);
        negative = sum[55:55];
    }
    action negate() {
        sum = -sum;
    }
    action assemble() {
        float32.value = negative ++ exponent ++ sum[54:32];
    }
    action round_up() {
        float32.value = float32.value + 1;
    }

    apply {
        find();
        if (lanes_do == LANES_ADD) {
            if (sign == 1) {
                split_negative();
            } else {
                split();
            }
            if (cell[95:64] == tag) {
                accumulate();
            }
            store();
        } else if (cell[95:64] == tag || has_partner == 1 || digits.isValid()) {
            begin_with_partner();
            if (digits.isValid()) {
                add_carried();
            }
            if (cell[95:64] == tag) {
                accumulate();
            }
            if (lanes_do == LANES_READ_DIGITS) {
                read_digits();
            } else {
                join();
                if (negative == 1) {
                    negate();
                }
                if (leading_one.apply().hit) {
                    assemble();
                    /* To nearest, ties to even; a carry out of the fraction moves the exponent. */
                    if (sum[31:0] > 0x80000000 || (sum[31:0] == 0x80000000 && sum[32:32] == 1)) {
                        round_up();
                    }
                }
            }
        }
    }
}

#endif
