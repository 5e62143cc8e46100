/* Alignment without variable shifts (docs/tofino.md).
 *
 * A first table turns the exponent into a shift, which two more take as steps of constant shifts:
 * by up to seven bits, then by whole bytes, which also cuts the value into its digits. Only the
 * first table depends on a job; what the others hold is part of the program. */
#ifndef LIBRA_STEP_ALIGN_P4
#define LIBRA_STEP_ALIGN_P4

/* A shift by s bits to the left is s + 24; 0 is a magnitude of zero. */
const bit<7> SHIFT_ESCAPES = 64;
#define ESCAPE_BIT 6

/* On entry, d0 is the gradient, d1 is 0 and the highest bit of `lane` is the sign, which stays there;
 * the other bits become the shift. On return d0 has the lower 24 bits of its digit, and above them what
 * belongs to d1: the caller clears that, for all lanes at once. */
control StepAlign(in bit<1> aligns, in job_slot_t job_slot, inout bit<8> lane,
                  inout bit<32> d1, inout bit<32> d0) {
    /* Sign and exponent give way to the implicit one. */
    action shifted(bit<7> by) {
        lane[6:0] = by;
        d0[31:23] = 1;
    }
    table exponents {
        key = {
            job_slot: exact;
            d0[30:23]: exact @name("exponent");
        }
        actions = { shifted; }
        size = 1 << (JOB_SLOT_BITS + 8);
        default_action = shifted(SHIFT_ESCAPES);
    }

    action bits1() { d0 = d0 << 1; }
    action bits2() { d0 = d0 << 2; }
    action bits3() { d0 = d0 << 3; }
    action bits4() { d0 = d0 << 4; }
    action bits5() { d0 = d0 << 5; }
    action bits6() { d0 = d0 << 6; }
    action bits7() { d0 = d0 << 7; }
    table bits {
        key = { lane[2:0]: exact @name("bits"); }
        actions = { bits1; bits2; bits3; bits4; bits5; bits6; bits7; NoAction; }
        size = 8;
        const default_action = NoAction();
        const entries = {
            1: bits1();
            2: bits2();
            3: bits3();
            4: bits4();
            5: bits5();
            6: bits6();
            7: bits7();
        }
    }

    /* By n bytes to the left, and three to the right. */
    action bytes0() { d0 = d0 >> 24; }
    action bytes1() { d0 = d0 >> 16; }
    action bytes2() { d0 = d0 >> 8; }
    action bytes3() { d1 = d0 >> 24; }
    action bytes4() { d1 = d0 >> 16; d0 = d0 << 8; }
    action bytes5() { d1 = d0 >> 8; d0 = d0 << 16; }
    action bytes6() { d1 = d0; d0 = 0; }
    table bytes {
        key = { lane[5:3]: exact @name("bytes"); }
        actions = { bytes0; bytes1; bytes2; bytes3; bytes4; bytes5; bytes6; NoAction; }
        size = 8;
        const default_action = NoAction();
        const entries = {
            0: bytes0();
            1: bytes1();
            2: bytes2();
            3: bytes3();
            4: bytes4();
            5: bytes5();
            6: bytes6();
        }
    }

    /* A condition for each table: on Tofino, what comes after a block of several has to wait for the
     * last one. */
    apply {
        if (aligns == 1) {
            exponents.apply();
        }
        if (aligns == 1) {
            bits.apply();
        }
        if (aligns == 1) {
            bytes.apply();
        }
    }
}

#endif
