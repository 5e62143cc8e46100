/* Headers and metadata of the Tofino program. Those of the packets are shared; here are those that
 * never leave the switch. */
#ifndef LIBRA_TNA_HEADERS_P4
#define LIBRA_TNA_HEADERS_P4

/* What the parser makes of a packet. */
typedef bit<4> kind_t;
const kind_t KIND_OTHER = 0;           /* nothing that is looked into */
const kind_t KIND_GRAD = 1;
const kind_t KIND_DRAIN = 2;
const kind_t KIND_PROBE = 3;
const kind_t KIND_UPDATE = 4;
const kind_t KIND_BAD_GRAD = 5;        /* a GRAD of another length */
const kind_t KIND_LIBRA = 6;           /* any other operation */
const kind_t KIND_LAP = 7;             /* a DRAIN on its laps through this pipe */

/* The operation of a DRAIN between its laps; only a recirculation port takes it for one. */
const bit<4> OP_LAP = 15;

/* What is left for the egress to do. */
typedef bit<8> act_t;
const act_t ACT_PASS = 0;
const act_t ACT_ADD = 1;               /* add the lanes of the egress, and acknowledge */
const act_t ACT_DUPLICATE = 2;         /* acknowledge */
const act_t ACT_PROBED = 3;
const act_t ACT_DRAIN = 4;             /* begin the laps; a copy asks for the next row */
const act_t ACT_READ_HIGH = 5;
const act_t ACT_READ_LOW = 6;

/* What the lanes do with a packet; a row is read on laps. */
typedef bit<8> lap_t;
const lap_t LAP_NONE = 0;
const lap_t LAP_HIGH = 1;              /* add up d1, and mark the cells that were touched */
const lap_t LAP_LOW = 2;               /* add up d0 */
const lap_t LAP_SEND = 3;              /* leave out what was not touched, and answer */
const lap_t LAP_MOVE = 4;              /* go on to the next pipe */

/* `lane`: sign, escape, shift (include/step_align.p4). `index`: of the cell. */
#define LANE_PLACE(i) \
    bit<8>  lane##i; \
    bit<16> index##i;

/* From the ingress to the egress, whose parser does not look beyond the first 160 bytes. */
header bridge_h {
    act_t    act;
#if EGRESS_LANES > 0
    lap_t    lap;
    bit<7>   unused;
    bit<1>   fresh;
#endif
    bit<16>  epoch;
#if EGRESS_LANES > 0
    bit<16>  index;                    /* of all lanes on a lap */
#endif
}

#if EGRESS_LANES > 0
/* Lanes of the egress that are to be added. */
header lanes_h {
    bit<8>   used;
    EACH_EGRESS_LANE(LANE_PLACE)
}
#define LANES_HEADER lanes_h lanes;
#else
#define LANES_HEADER
#endif

/* A row on its laps, in the first pipe that has workers: digits of the other pipes are added to what
 * was read there. */
const bit<8> NEXT_FIRST = 0;           /* LAP_HIGH; no cells in the packet */
const bit<8> NEXT_LOW = 1;             /* LAP_LOW */
const bit<8> NEXT_SEND = 2;            /* LAP_SEND */
const bit<8> NEXT_PIPE = 3;            /* LAP_HIGH in another pipe */
const bit<8> NEXT_MOVE = 4;            /* LAP_MOVE */

header lap_h {
    bit<8>   next;                     /* lap */
    bit<16>  row;
    bitmap_t used;
    bit<16>  bytes;                    /* of the cells that were touched */
    bit<7>   unused;
    port_t   following;                /* of the next pipe, for LAP_MOVE */
}

/* Not 0: the cell was touched in the round. */
header mark_h {
    bit<8> touched;
}

#define LANE_HEADERS(i) \
    mark_h   mark##i; \
    digits_h digits##i;

struct ingress_headers_t {
    bridge_h   bridge;
    LANES_HEADER
    ethernet_h ethernet;
    ipv4_h     ipv4;
    udp_h      udp;
    libra_h    libra;
    grad_h     grad;
    drain_h    drain;
    probe_h    probe;
    lap_h      lap;
    drained_h  drained;
    EACH_LANE(LANE_HEADERS)
}

struct egress_headers_t {
    bridge_h   bridge;
    LANES_HEADER
    ethernet_h ethernet;
    ipv4_h     ipv4;
    udp_h      udp;
    libra_h    libra;
    drain_h    drain;
    probe_h    probe;
    lap_h      lap;
    EACH_EGRESS_LANE(LANE_HEADERS)
}

struct ingress_metadata_t {
    kind_t      kind;
    job_slot_t  job_slot;              /* 0: the job is not known here */
    rank_t      rank;
    bit<2>      role;
    bit<1>      local;                 /* addressed to this switch */
    bit<1>      recirculated;
    bit<1>      aligns;                /* a GRAD: its gradients become digits */
    bit<1>      first_lap;
    bit<1>      bad_checksum;
    bit<1>      wrong_epoch;
    bit<1>      wrong_server;
    bit<1>      bad_drain;
    bit<1>      escape;
    bit<1>      unknown_row;
    bit<1>      admitted;
    bit<1>      fresh;                 /* the window has not seen the packet before */
    lap_t       lap;
    reason_t    reason;
    port_t      strange;               /* not 0: the source address belongs to another port */
    bit<16>     row_mask;
    bit<16>     lower_base;            /* lowest row of the job, with its bank: a copy for each */
#if ROW_PARTS == 3
    bit<16>     middle_base;
#endif
    bit<16>     upper_base;            /* part of the lanes */
    bit<16>     or0;
    bit<16>     or1;
    bit<16>     or2;
    bit<16>     or3;
    bit<16>     or4;
    bit<16>     or5;
    bit<16>     or6;
    bit<16>     or7;
    tag_t       first_tag;             /* of the job's epoch */
    tag_t       next_tag;
    tag_t       open_tag;              /* the lowest open round of the epoch; 0: any */
    bit<32>     ahead;
    ipv4_addr_t server;
    EACH_INGRESS_LANE(LANE_PLACE)
}

struct egress_metadata_t {
    bit<1> unused;
}

#endif
