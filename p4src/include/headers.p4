#ifndef LIBRA_HEADERS_P4
#define LIBRA_HEADERS_P4

header ethernet_h {
    mac_addr_t dst;
    mac_addr_t src;
    bit<16>    ether_type;
}

header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_len;
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

header udp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header libra_h {
    bit<4>  version;
    bit<4>  op;
    bit<8>  flags;
    bit<16> job;
    bit<16> worker;
    bit<16> reserved;
    tag_t   tag;
    seq_t   seq;
}

/* The gradient of a lane is taken apart into the fields of binary32. */
#ifndef GRAD_LANE
#define GRAD_LANE(i) \
    bit<16> row##i; \
    bit<1>  sign##i; \
    bit<8>  exponent##i; \
    bit<23> fraction##i;
#endif

header grad_h {
    bitmap_t used;
    EACH_LANE(GRAD_LANE)
}

header drain_h {
    bit<16> row;
    bit<16> rows;
    bit<8>  format;
    bit<8>  hops;
}

header drained_h {
    bit<16>  row;
    bit<8>   format;
    bit<8>   hops;
    bitmap_t used;
}

/* A switch that a DRAIN or PARTIAL still has to visit. */
header hop_h {
    ipv4_addr_t address;
}

header digits_h {
    bit<32> d1;
    bit<32> d0;
}

header float32_h {
    bit<32> value;
}

header probe_h {
    bit<16> program;
    bit<16> lanes;
    bit<16> window;
    bit<16> epoch;
    bit<16> rows;
    bit<16> reserved;
}

struct headers_t {
    ethernet_h ethernet;
    ipv4_h     ipv4;
    udp_h      udp;
    libra_h    libra;
    grad_h     grad;
    drain_h    drain;
    probe_h    probe;
    drained_h  drained;
    digits_h[LANES]  digits;
    float32_h[LANES] floats;
    hop_h[MAX_HOPS]  hops;
}

/* The digits of the key's second cell. */
#define PARTNER_LANE(i) \
    @field_list(KEEP_PARTNERS) digits_t partner##i;

struct metadata_t {
    job_slot_t  job_slot;      /* 0: the job is not known here */
    epoch_t     epoch;
    row_t       row_base;
    row_t       row_mask;
    bit<8>      float_bias;    /* 127 - F, mod 256 */
    ipv4_addr_t server;
    rank_t      rank;
    bit<2>      role;
    bit<2>      lanes_do;
    bit<1>      escape;
    bit<1>      local;         /* addressed to this switch */
    bit<1>      elsewhere;     /* a worker whose gradients another switch sums */
    bit<1>      forged;        /* the source address belongs to another port */
    bit<16>     rows;          /* all bits that are set in a row of a GRAD */
    reason_t    reason;
    bit<1>      again;         /* the packet passes a second time */
    @field_list(KEEP_PARTNERS)
    bitmap_t    partners;      /* lanes whose key has something in its second cell */
    EACH_LANE(PARTNER_LANE)
}

#endif
