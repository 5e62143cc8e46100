/* Libra for v1model: sums the gradients of hot parameters while they pass.
 *
 * A GRAD of a known job and worker is added to the cells of its lanes and acknowledged here; any
 * other packet, for whatever reason, goes on as ordinary IPv4, and the reason is counted. A DRAIN
 * reads the sums, of this switch or, one after the other, of the switches of several racks.
 * docs/wire.md has the packets, docs/architecture.md the arithmetic. */
#include <core.p4>
#include <v1model.p4>

#include "include/config.p4"
#include "include/lanes.p4"
#include "include/types.p4"
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/checksum.p4"
#include "include/membership.p4"
#include "include/window.p4"
#include "include/leading_one.p4"
#include "include/lane.p4"
#include "include/partner.p4"
#include "include/drain.p4"
#include "include/reply.p4"
#include "include/forward.p4"

/* With STEP_ALIGN, the alignment of the Tofino program runs here: the same bits. */
#ifdef STEP_ALIGN
#include "include/step_align.p4"
#define LANE_INSTANCES(i) \
    StepAlign() align##i; \
    LaneCells() cells##i; \
    magnitude_t magnitude##i; \
    bit<8> lane##i; \
    bit<32> high##i; \
    bit<32> low##i;
#define LOOK_UP(i) \
    lane##i = hdr.grad.sign##i ++ 7w0; \
    high##i = 0; \
    low##i = hdr.grad.sign##i ++ hdr.grad.exponent##i ++ hdr.grad.fraction##i; \
    align##i.apply(1, md.job_slot, lane##i, high##i, low##i); \
    magnitude##i = high##i[23:0] ++ low##i[23:0]; \
    md.escape = md.escape | lane##i[ESCAPE_BIT:ESCAPE_BIT];
#else
#define LANE_INSTANCES(i) \
    LaneAlign() align##i; \
    LaneCells() cells##i; \
    magnitude_t magnitude##i;
#define LOOK_UP(i) \
    align##i.apply(md.job_slot, hdr.grad.exponent##i, hdr.grad.fraction##i, magnitude##i, \
                   md.escape);
#endif

#define ALIGN(i) \
    magnitude##i = 0; \
    if (hdr.grad.used[i:i] == 1) { \
        md.rows = md.rows | hdr.grad.row##i; \
        LOOK_UP(i) \
    }

#define ADD_OR_READ(i) \
    if (md.lanes_do != LANES_ADD) { row = drain_row; } \
    else { row = md.row_base | (hdr.grad.row##i[ROW_BITS - 1:0] & md.row_mask); } \
    if (md.lanes_do != LANES_ADD || hdr.grad.used[i:i] == 1) { \
        cells##i.apply(hdr.libra.tag, md.lanes_do, row, hdr.grad.sign##i, magnitude##i, \
                       md.float_bias, md.partners[i:i], md.partner##i, hdr.digits[i], \
                       hdr.floats[i]); \
    }

control LibraIngress(inout headers_t hdr, inout metadata_t md,
                     inout standard_metadata_t standard_metadata) {
    Sources() sources;
    Membership() membership;
    Open() open;
    Window() window;
    Partner() partner;
    Drain() drain;
    Reply() reply;
    Forward() forward;
    counter(REASONS, CounterType.packets) reasons;
    /* Where foreign packets come in, and how many probes each port may have answered. */
    counter(PORTS, CounterType.packets) foreign_at;
    meter(PORTS, MeterType.packets) probes_at;
    bit<2> colour;
    EACH_LANE(LANE_INSTANCES)
    row_t drain_row;
    row_t row;

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

    apply {
        /* IPv4 with options is not routed either: its checksum would have to cover them. */
        if (!hdr.ipv4.isValid() || hdr.ipv4.ihl != 5) {
            md.reason = REASON_NO_ROUTE;
            mark_to_drop(standard_metadata);
        } else if (standard_metadata.checksum_error == 1) {
            md.reason = REASON_BAD_CHECKSUM;
            mark_to_drop(standard_metadata);
        } else {
            sources.apply(hdr, md, standard_metadata);
        }
        if (md.forged == 1) {
            md.reason = REASON_FOREIGN;
            mark_to_drop(standard_metadata);
        } else if (md.reason == REASON_NONE) {
            locals.apply();
            if (hdr.libra.isValid()) {
                membership.apply(hdr, md, standard_metadata);
                if (hdr.ipv4.total_len != IPV4_BYTES + hdr.udp.length) {
                    md.reason = REASON_MALFORMED;
                } else if (hdr.grad.isValid()) {
                    if (md.job_slot == 0) {
                        md.reason = REASON_NO_JOB;
                    } else if (md.elsewhere == 1) {
                        /* Its own switch has judged it, and counted why it goes on. */
                    } else if (hdr.libra.tag[31:20] != md.epoch) {
                        md.reason = REASON_WRONG_EPOCH;
                    } else if (md.role != ROLE_WORKER || hdr.ipv4.dst != md.server) {
                        md.reason = REASON_FOREIGN;
                    } else {
                        EACH_LANE(ALIGN)
                        if ((md.rows & ~(bit<16>)md.row_mask) != 0) {
                            md.reason = REASON_UNKNOWN_ROW;
                        } else if (md.escape == 1) {
                            md.reason = REASON_ESCAPED;
                        } else {
                            open.apply(hdr, md);
                            if (md.reason == REASON_NONE) {
                                window.apply(hdr, md);
                            }
                        }
                        if (md.reason == REASON_NONE) {
                            md.reason = REASON_AGGREGATED;
                            md.lanes_do = LANES_ADD;
                        }
                    }
                } else if (md.local == 1 && (hdr.drain.isValid() || hdr.drained.isValid())) {
                    drain.apply(hdr, md, standard_metadata, drain_row);
                } else if (hdr.probe.isValid() && (hdr.libra.flags & FLAG_REPLY) == 0) {
                    if (md.role != ROLE_NONE) {
                        md.reason = REASON_PROBED;
                        probes_at.execute_meter((bit<32>)standard_metadata.ingress_port, colour);
                        if (colour == METER_RED) {
                            md.reason = REASON_THROTTLED;
                        }
                    } else if (md.local == 1) {
                        md.reason = (md.job_slot == 0) ? REASON_NO_JOB : REASON_FOREIGN;
                    }
                } else if (hdr.libra.op == OP_UPDATE && md.role == ROLE_SERVER
                           && hdr.libra.tag[31:20] == md.epoch) {
                    open.apply(hdr, md);
                } else if (hdr.libra.op == OP_GRAD || md.local == 1) {
                    md.reason = REASON_MALFORMED;
                }

                if (md.lanes_do != LANES_IDLE) {
                    EACH_LANE(ADD_OR_READ)
                }
                if (md.again == 1) {
                    partner.apply(hdr, md);
                }
                reply.apply(hdr, md);
            } else if (standard_metadata.parser_error != error.NoError) {
                md.reason = REASON_MALFORMED;
            }
            if (md.again == 1) {
                resubmit_preserving_field_list(KEEP_PARTNERS);
            } else if (md.reason == REASON_THROTTLED) {
                mark_to_drop(standard_metadata);
            } else {
                forward.apply(hdr, md, standard_metadata);
            }
        }
        if (md.reason != REASON_NONE) {
            reasons.count((bit<32>)(md.job_slot ++ md.reason));
            if (md.reason == REASON_FOREIGN) {
                foreign_at.count((bit<32>)standard_metadata.ingress_port);
            }
        }
    }
}

control LibraEgress(inout headers_t hdr, inout metadata_t md,
                    inout standard_metadata_t standard_metadata) {
    /* The copy of a DRAIN comes round again for the next row. */
    action next_row() {
        hdr.drain.row = hdr.drain.row + 1;
        hdr.drain.rows = hdr.drain.rows - 1;
        recirculate_preserving_field_list(KEEP_NOTHING);
    }

    /* Its second cells are in the next row too, and their mask goes round by a bit. */
    action next_second() {
        hdr.libra.seq[31:16] = SECOND_ROW + 1;
        hdr.libra.seq[LANE_BITS - 1:0] =
            hdr.libra.seq[LANE_BITS - 2:0] ++ hdr.libra.seq[LANE_BITS - 1:LANE_BITS - 1];
    }

    apply {
        if (standard_metadata.instance_type == INSTANCE_INGRESS_CLONE) {
            if (SECOND_MASK != 0) {
                next_second();
            }
            next_row();
        } else if (standard_metadata.instance_type == INSTANCE_REPLICATED
                   && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(LibraParser(), LibraVerifyChecksum(), LibraIngress(), LibraEgress(),
         LibraUpdateChecksum(), LibraDeparser()) main;
