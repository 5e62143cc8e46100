/* Sizes of the Tofino program, which lanes are where, and what differs between the chips.
 *
 * A stage has four stateful ALUs and a lane takes two. Only the later stages of the ingress know
 * that a packet may be added, so that on Tofino 1 the first lanes are added in the egress, whose
 * early stages are free: EGRESS_LANES of them, the others in the ingress. Tofino 2 has stages
 * enough for all of them in the ingress. */
#ifndef LIBRA_TNA_CONFIG_P4
#define LIBRA_TNA_CONFIG_P4

#ifndef LANES
#define LANES 16
#endif

#include "../config.p4"
#include "../lanes.p4"

/* The window of every worker takes memory of one stage: fewer jobs and workers than on v1model. */
#undef JOB_SLOT_BITS
#define JOB_SLOT_BITS 2
#undef RANK_BITS
#define RANK_BITS 6

/* Of each pipe, the port that leads back into it. */
#if __TARGET_TOFINO__ == 2
#define RECIRCULATION 6
#else
#define RECIRCULATION 68
#endif

/* No field of the gradient is looked at in the packet: its lane works on a copy. */
#define GRAD_LANE(i) \
    bit<16> row##i; \
    bit<32> grad##i;

#ifndef EGRESS_LANES
#if __TARGET_TOFINO__ == 2
#define EGRESS_LANES 0
#elif LANES == 16
#define EGRESS_LANES 6
#else
#define EGRESS_LANES 2
#endif
#endif

#if LANES == 16
#define EACH_LOWER_LANE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_UPPER_LANE(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#if EGRESS_LANES == 0
#define EACH_EGRESS_LANE(X)
#define EACH_INGRESS_LANE(X) EACH_LANE(X)
#elif EGRESS_LANES == 4
#define EACH_EGRESS_LANE(X) X(0) X(1) X(2) X(3)
#define EACH_INGRESS_LANE(X) \
    X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#elif EGRESS_LANES == 6
#define EACH_EGRESS_LANE(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH_INGRESS_LANE(X) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#else
#error "with 16 lanes, EGRESS_LANES must be 0, 4 or 6"
#endif
#elif LANES == 8
#define EACH_LOWER_LANE(X) X(0) X(1) X(2) X(3)
#define EACH_UPPER_LANE(X) X(4) X(5) X(6) X(7)
#if EGRESS_LANES == 0
#define EACH_EGRESS_LANE(X)
#define EACH_INGRESS_LANE(X) EACH_LANE(X)
#elif EGRESS_LANES == 2
#define EACH_EGRESS_LANE(X) X(0) X(1)
#define EACH_INGRESS_LANE(X) X(2) X(3) X(4) X(5) X(6) X(7)
#elif EGRESS_LANES == 4
#define EACH_EGRESS_LANE(X) X(0) X(1) X(2) X(3)
#define EACH_INGRESS_LANE(X) X(4) X(5) X(6) X(7)
#else
#error "with 8 lanes, EGRESS_LANES must be 0, 2 or 4"
#endif
#else
#error "on Tofino, LANES must be 8 or 16"
#endif

/* An operation takes its words of 16 bits from one group of the header vector, of which it can write
 * 16 on Tofino 1 and 12 on Tofino 2: rows are looked at in two parts, or in three. */
#if __TARGET_TOFINO__ == 2 && LANES == 16
#define ROW_PARTS 3
#define EACH_LOWER_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH_MIDDLE_ROW(X) X(6) X(7) X(8) X(9) X(10)
#define EACH_UPPER_ROW(X) X(11) X(12) X(13) X(14) X(15)
#else
#define ROW_PARTS 2
#define EACH_LOWER_ROW(X) EACH_LOWER_LANE(X)
#define EACH_MIDDLE_ROW(X)
#define EACH_UPPER_ROW(X) EACH_UPPER_LANE(X)
#endif

/* Where a lane's byte and index are: PLACE##i.lane##i, PLACE##i.index##i. Those of the egress travel
 * there. */
#if EGRESS_LANES >= 2
#define PLACE0 hdr.lanes
#define PLACE1 hdr.lanes
#else
#define PLACE0 md
#define PLACE1 md
#endif
#if EGRESS_LANES >= 4
#define PLACE2 hdr.lanes
#define PLACE3 hdr.lanes
#else
#define PLACE2 md
#define PLACE3 md
#endif
#if EGRESS_LANES >= 6
#define PLACE4 hdr.lanes
#define PLACE5 hdr.lanes
#else
#define PLACE4 md
#define PLACE5 md
#endif
#define PLACE6 md
#define PLACE7 md
#define PLACE8 md
#define PLACE9 md
#define PLACE10 md
#define PLACE11 md
#define PLACE12 md
#define PLACE13 md
#define PLACE14 md
#define PLACE15 md

#endif
