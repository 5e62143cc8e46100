/* Libra for Tofino 1 (TNA) and Tofino 2 (T2NA): the packets, the arithmetic and the tables of
 * libra.p4.
 *
 * What differs is said in docs/tofino.md: on Tofino 1 lanes are added partly in the ingress and
 * partly in the egress, a drain makes laps through the pipe, since an access to a register puts out
 * one word, and it is answered in digits. Checks of the UDP checksum are the hosts'. */
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "include/tna/config.p4"
#include "include/types.p4"
#include "include/headers.p4"
#include "include/step_align.p4"
#include "include/tna/headers.p4"
#include "include/tna/rows.p4"
#include "include/tna/ingress_parser.p4"
#include "include/tna/membership.p4"
#include "include/tna/window.p4"
#include "include/tna/escapes.p4"
#include "include/tna/verdict.p4"
#include "include/tna/touched.p4"
#include "include/tna/lane_cells.p4"
#include "include/tna/egress.p4"

#define ALIGN_INSTANCE(i) StepAlign() align##i;
#define INGRESS_LANE_INSTANCES(i) \
    HighDigit() high##i; \
    LowDigit() low##i;

#define ALIGN(i) \
    align##i.apply(md.aligns, md.job_slot, PLACE##i.lane##i, hdr.digits##i.d1, \
                   hdr.digits##i.d0);
#define CUT_LOW_DIGIT(i) hdr.digits##i.d0[31:24] = 0;

#define PLACE_LOWER(i) PLACE##i.index##i = PLACE##i.index##i | md.lower_base;
#define PLACE_MIDDLE(i) PLACE##i.index##i = PLACE##i.index##i | md.middle_base;
#define PLACE_UPPER(i) PLACE##i.index##i = PLACE##i.index##i | md.upper_base;

#define INGRESS_LANE(i) \
    high##i.apply(md.lap, md.fresh, hdr.grad.used[i:i], md.lane##i[7:7], hdr.libra.tag, \
                  md.index##i, hdr.digits##i.d1); \
    low##i.apply(md.lap, md.fresh, hdr.grad.used[i:i], md.lane##i[7:7], hdr.libra.tag, \
                 md.index##i, hdr.mark##i.touched, hdr.digits##i.d0);

#define DROP_DIGITS(i) hdr.digits##i.setInvalid();

#define CLEAR_CELLS(i) \
    hdr.mark##i.setValid(); \
    hdr.mark##i.touched = 0; \
    hdr.digits##i.setValid(); \
    hdr.digits##i.d1 = 0; \
    hdr.digits##i.d0 = 0;

#if __TARGET_TOFINO__ == 2
/* A stateful ALU takes a byte of its input from one container. */
@pa_container_size("ingress", "md.first_tag", 32)
#endif
control LibraIngress(inout ingress_headers_t hdr, inout ingress_metadata_t md,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    Sources() sources;
    Membership() membership;
    AnyRow() any_row;
    InBlock() in_block;
    Open() open;
    Escapes() escapes;
    Verdict() verdict;
    Window() window;
    Touched() touched;
    Counter<bit<32>, bit<16>>(REASONS, CounterType_t.PACKETS) reasons;
    EACH_LANE(ALIGN_INSTANCE)
    EACH_INGRESS_LANE(INGRESS_LANE_INSTANCES)

    action local() {
        md.local = 1;
    }
    /* The addresses of this switch. */
    table locals {
        key = { hdr.ipv4.dst: exact; }
        actions = { local; NoAction; }
        size = 16;
        default_action = NoAction();
    }

    /* Where the rows of a job are read: the recirculation port of the first pipe that has workers,
     * and the group that copies a DRAIN there. */
    action lap_at(port_t port, bit<16> group) {
        ig_tm_md.ucast_egress_port = port;
        ig_tm_md.mcast_grp_a = group;
    }
    table laps {
        key = { md.job_slot: exact; }
        actions = { lap_at; NoAction; }
        size = JOBS;
        default_action = NoAction();
    }
    action read_low() {
        hdr.bridge.act = ACT_READ_HIGH;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
        hdr.lap.next = NEXT_LOW;
    }
    /* Not at once: the egress of this pipe has cells to read first. */
    action read_in(port_t port) {
        hdr.bridge.act = ACT_READ_LOW;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
        hdr.lap.next = NEXT_MOVE;
        hdr.lap.following = port;
    }
    action move() {
        ig_tm_md.ucast_egress_port = hdr.lap.following;
        hdr.lap.next = NEXT_PIPE;
    }
    action send() {
        hdr.bridge.act = ACT_READ_LOW;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
        hdr.lap.next = NEXT_SEND;
    }
    /* The other pipes that have workers of a job, each behind the one before. */
    table pipes {
        key = {
            md.job_slot: exact;
            ig_intr_md.ingress_port: exact @name("standard_metadata.ingress_port");
        }
        actions = { read_in; send; }
        size = 4 * JOBS;
        default_action = send();
    }

    action refuse(reason_t reason) {
        ig_dprsr_md.drop_ctl = 1;
        md.reason = reason;
    }
    @name("forward.no_route") action no_route() {
        ig_dprsr_md.drop_ctl = 1;
    }
    @name("forward.forward") action forward(port_t port, mac_addr_t next_hop, mac_addr_t own) {
        ig_tm_md.ucast_egress_port = port;
        hdr.ethernet.dst = next_hop;
        hdr.ethernet.src = own;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    @name("forward.routes") table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; no_route; }
        size = 4096;
        default_action = no_route();
    }
    @name("forward.replicate") action replicate(bit<16> group) {
        ig_tm_md.mcast_grp_a = group;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    /* Only the source that a group belongs to may send to it. */
    @name("forward.groups") table groups {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ipv4.src: exact;
            ig_intr_md.ingress_port: exact @name("standard_metadata.ingress_port");
        }
        actions = { replicate; no_route; }
        size = 1024;
        default_action = no_route();
    }

    action cut_upper_digits() {
        EACH_UPPER_LANE(CUT_LOW_DIGIT)
    }
    action cut_lower_digits() {
        EACH_LOWER_LANE(CUT_LOW_DIGIT)
    }
    action bank() {
        md.lower_base = md.lower_base | (1 << ROW_BITS);
#if ROW_PARTS == 3
        md.middle_base = md.middle_base | (1 << ROW_BITS);
#endif
        md.upper_base = md.upper_base | (1 << ROW_BITS);
    }
    action place_indexes() {
        EACH_LOWER_ROW(PLACE_LOWER)
        EACH_MIDDLE_ROW(PLACE_MIDDLE)
        EACH_UPPER_ROW(PLACE_UPPER)
    }
    /* They were aligned here; only those that are to be added go on to the egress. */
    action drop_ingress_digits() {
        EACH_INGRESS_LANE(DROP_DIGITS)
    }
#if EGRESS_LANES > 0
    action drop_lanes() {
        hdr.lanes.setInvalid();
    }
    action drop_egress_digits() {
        EACH_EGRESS_LANE(DROP_DIGITS)
    }
#endif
    action clear_cells() {
        EACH_LANE(CLEAR_CELLS)
    }
    action answer(act_t act) {
        hdr.bridge.act = act;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    action added() {
        answer(ACT_ADD);
        hdr.grad.setInvalid();
        md.reason = REASON_AGGREGATED;
    }
    action duplicate() {
        answer(ACT_DUPLICATE);
        hdr.grad.setInvalid();
        md.reason = REASON_DUPLICATE;
    }
    action drained() {
        hdr.drained.setValid();
        hdr.drained.row = hdr.lap.row;
        hdr.drained.format = FORMAT_DIGITS;
        hdr.drained.hops = 0;
        hdr.drained.used = hdr.lap.used;
        hdr.libra.op = OP_DRAINED;
        hdr.udp.checksum = 0;
        hdr.ipv4.ttl = 64;
        hdr.udp.length = hdr.lap.bytes + (UDP_BYTES + LIBRA_BYTES + DRAINED_BYTES);
        hdr.ipv4.total_len =
            hdr.lap.bytes + (IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + DRAINED_BYTES);
        ipv4_addr_t address = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        bit<16> port = hdr.udp.src_port;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = port;
        hdr.lap.setInvalid();
    }

    apply {
        hdr.bridge.act = ACT_PASS;
        if (!hdr.ipv4.isValid() || hdr.ipv4.ihl != 5) {
            refuse(REASON_NO_ROUTE);
        } else if (md.bad_checksum == 1) {
            refuse(REASON_BAD_CHECKSUM);
        } else {
            if (md.recirculated == 0) {
                sources.apply(hdr, md, ig_intr_md);
            }
            locals.apply();
            membership.apply(hdr, md, ig_intr_md);
            if (hdr.libra.tag[31:20] != md.first_tag[31:20]) {
                md.wrong_epoch = 1;
            }
            if (hdr.ipv4.dst != md.server) {
                md.wrong_server = 1;
            }
            md.next_tag = hdr.libra.tag + 1;
            if (hdr.libra.tag[0:0] == 1) {
                bank();
            }
            if (hdr.drain.rows == 0 || hdr.drain.hops != 0 || hdr.drain.format != FORMAT_DIGITS) {
                md.bad_drain = 1;
            }
            if (md.first_lap == 1) {
                clear_cells();
            }
            touched.apply(md.lap, hdr);
            any_row.apply(hdr, md);
            EACH_LANE(ALIGN)
            if (md.aligns == 1) {
                cut_upper_digits();
            }
            if (md.aligns == 1) {
                cut_lower_digits();
            }
            escapes.apply(hdr, md);
            place_indexes();
            in_block.apply(md);
            open.apply(md);
            md.ahead = hdr.libra.tag - md.open_tag;
            verdict.apply(hdr, md);
            if (md.admitted == 1) {
                window.apply(hdr.libra.seq, md);
            }
            EACH_INGRESS_LANE(INGRESS_LANE)
#if EGRESS_LANES > 0
            hdr.bridge.lap = md.lap;
            hdr.bridge.fresh = md.fresh;
            hdr.bridge.index = PLACE0.index0;
            hdr.lanes.used = hdr.grad.used[7:0];
#endif
            if (md.aligns == 1) {
                drop_ingress_digits();
            }
#if EGRESS_LANES > 0
            if (md.fresh == 0) {
                drop_lanes();
            }
            if (md.aligns == 1 && md.fresh == 0) {
                drop_egress_digits();
            }
#endif

            if (md.strange != 0) {
                refuse(REASON_FOREIGN);
            } else if (md.admitted == 1) {
                if (md.fresh == 1) {
                    added();
                } else {
                    duplicate();
                }
            } else if (md.reason == REASON_PROBED) {
                answer(ACT_PROBED);
            } else if (md.reason == REASON_DRAINED) {
                hdr.bridge.act = ACT_DRAIN;
                laps.apply();
            } else if (md.lap == LAP_HIGH) {
                read_low();
            } else if (md.lap == LAP_LOW) {
                pipes.apply();
            } else if (md.lap == LAP_MOVE) {
                move();
            } else if (md.kind == KIND_UPDATE && md.recirculated == 1) {
                ig_dprsr_md.drop_ctl = 1;
            } else {
                if (md.lap == LAP_SEND) {
                    drained();
                }
                if (hdr.ipv4.ttl <= 1) {
                    refuse(REASON_TTL_EXPIRED);
                } else if (hdr.ipv4.dst[31:28] == 0xe) {
                    groups.apply();
                } else {
                    routes.apply();
                }
            }
        }
        if (md.reason != REASON_NONE) {
            reasons.count((bit<16>)(md.job_slot ++ md.reason));
        }
    }
}

Pipeline(IngressParser(), LibraIngress(), IngressDeparser(), EgressParser(), LibraEgress(),
         EgressDeparser()) pipe;

Switch(pipe) main;
