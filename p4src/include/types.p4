/* Types and constants; the words are those of docs/wire.md. */
#ifndef LIBRA_TYPES_P4
#define LIBRA_TYPES_P4

typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<9>  port_t;

typedef bit<12> epoch_t;
typedef bit<32> tag_t;                 /* epoch (12) ++ round (20) */
typedef bit<32> seq_t;
typedef bit<LANES> bitmap_t;           /* lane i is bit i, counted from the least significant */

typedef bit<JOB_SLOT_BITS> job_slot_t;
typedef bit<RANK_BITS> rank_t;
typedef bit<ROW_BITS> row_t;
typedef bit<48> magnitude_t;           /* fixed-point magnitude v < 2^48 */
typedef bit<96> cell_t;                /* tag ++ d1 ++ d0 */
typedef bit<64> digits_t;              /* d1 ++ d0 */

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> LIBRA_PORT = 19522;
const bit<4>  LIBRA_VERSION = 1;

/* Operations. */
const bit<4> OP_GRAD = 1;
const bit<4> OP_ACK = 2;
const bit<4> OP_DRAIN = 3;
const bit<4> OP_DRAINED = 4;
const bit<4> OP_UPDATE = 5;
const bit<4> OP_PROBE = 6;
const bit<4> OP_PARTIAL = 7;           /* a row on its way from switch to switch */

/* Flags. */
const bit<8> FLAG_DUPLICATE = 0x01;
const bit<8> FLAG_REPLY = 0x04;

/* Formats of a DRAINED packet. */
const bit<8> FORMAT_DIGITS = 0;
const bit<8> FORMAT_FLOAT32 = 1;

/* What the lanes do with this packet. */
const bit<2> LANES_IDLE = 0;
const bit<2> LANES_ADD = 1;
const bit<2> LANES_READ_DIGITS = 2;
const bit<2> LANES_READ_FLOAT32 = 3;

/* Roles of a member of a job. */
const bit<2> ROLE_NONE = 0;
const bit<2> ROLE_WORKER = 1;
const bit<2> ROLE_SERVER = 2;
const bit<2> ROLE_SWITCH = 3;          /* the one before this one on the way of a DRAIN */

/* What became of a Libra packet; an index of the counter `reasons`. */
typedef bit<REASON_BITS> reason_t;
const reason_t REASON_NONE = 0;
const reason_t REASON_AGGREGATED = 1;
const reason_t REASON_DUPLICATE = 2;
const reason_t REASON_STALE = 3;
const reason_t REASON_WRONG_EPOCH = 4;
const reason_t REASON_FOREIGN = 5;
const reason_t REASON_ESCAPED = 6;
const reason_t REASON_NO_JOB = 7;
const reason_t REASON_MALFORMED = 8;
const reason_t REASON_DRAINED = 9;
const reason_t REASON_DRAIN_REFUSED = 10;
const reason_t REASON_PROBED = 11;
const reason_t REASON_NO_ROUTE = 12;
const reason_t REASON_BAD_CHECKSUM = 13;
const reason_t REASON_TTL_EXPIRED = 14;
const reason_t REASON_UNKNOWN_ROW = 15;
const reason_t REASON_EARLY = 16;
const reason_t REASON_THROTTLED = 17;

/* What a meter says of a packet that is too much. */
const bit<2> METER_RED = 2;

const bit<16> IPV4_BYTES = 20;
const bit<16> UDP_BYTES = 8;
const bit<16> LIBRA_BYTES = 16;
const bit<16> PROBE_BYTES = 12;
const bit<16> DRAIN_BYTES = 6;
const bit<16> GRAD_BYTES = LANES / 8 + LANES * 6;
const bit<16> DRAINED_BYTES = 4 + LANES / 8;
const bit<16> PARTIAL_BYTES = DRAINED_BYTES + 8 * LANES;

/* The session that copies a DRAIN, so that its next row is read by the copy. */
const bit<32> DRAIN_SESSION = 1;

/* What a packet keeps of its metadata when it passes again: nothing, or what was read of a second
 * row. */
const bit<8> KEEP_NOTHING = 0;
const bit<8> KEEP_PARTNERS = 1;

/* standard_metadata.instance_type of v1model. */
const bit<32> INSTANCE_NORMAL = 0;
const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_REPLICATED = 5;
const bit<32> INSTANCE_RESUBMITTED = 6;

#endif
