/* All bits that are set in a row of a GRAD, as a tree of ORs: a stage for each level. */
#ifndef LIBRA_TNA_ROWS_P4
#define LIBRA_TNA_ROWS_P4

#if LANES == 16
#define OR_METADATA \
    bit<16> or0; bit<16> or1; bit<16> or2; bit<16> or3; \
    bit<16> or4; bit<16> or5; bit<16> or6; bit<16> or7;
#else
#define OR_METADATA bit<16> or0; bit<16> or1; bit<16> or2; bit<16> or3;
#endif

#endif
