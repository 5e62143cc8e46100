/* The switch's state. Generated code defines the SS_* sizes and struct ss_meta, ss_headers,
 * ss_saved and ss_state before it includes this file. */
#ifndef SS_CORE_H
#define SS_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "arena.h"
#include "hashes.h"
#include "hashmap.h"
#include "lpm.h"
#include "meters.h"
#include "ternary.h"

enum {
    SS_DROP_PORT = 511,
    SS_MAX_PORTS = 511, /* 0 to 510 */
    SS_MAX_PACKET = 10240,
    SS_MAX_GROUPS = 65536,
    SS_MAX_SESSIONS = 32768,
    SS_CLONE_REQUESTED = 1 << 16, /* distinguishes session 0 from no clone */
    SS_MAX_BUFFERS = 16384,
    SS_MAX_QUEUED = SS_MAX_BUFFERS / 2, /* recirculated and resubmitted; the rest is for new packets */
    SS_MAX_ERRORS = 256, /* parser errors that are counted */
    SS_MAX_PASSES = 1 << 20, /* per injected packet */
    SS_HINT_WORDS = 64, /* what is kept to guess the cells of packets to come */
    SS_HINT_AHEAD = 2, /* how many packets ahead */
};

enum ss_direction { SS_RX, SS_TX }; /* of a port, seen from the switch */

enum { SS_NORMAL, SS_INGRESS_CLONE, SS_EGRESS_CLONE, SS_RECIRC = 4, SS_REPLICATION, SS_RESUBMIT };

/* Why packets or copies of them went nowhere. */
#define SS_DROP_REASONS(X) \
    X(ingress_drop) X(egress_drop) X(no_port) X(no_buffer) X(oversize) X(loop_limit) \
    X(assertion) X(empty_group) X(no_session) X(cpu_queue_full) X(digest_queue_full) \
    X(tx_error) X(rx_oversize) X(fault_loss) X(fault_queue_full) X(fault_overflow) X(fault_cut)

#define SS_REASON(name) SS_##name,
enum { SS_DROP_REASONS(SS_REASON) SS_NUM_REASONS };
#undef SS_REASON

/* A packet between passes. While it is processed, start and len describe what the parser left. */
struct ss_buf {
    struct ss_buf *next;
    uint8_t *start;
    uint32_t len;
    uint32_t port, instance, list, ingress_length;
    struct ss_saved saved; /* fields of the list that the next pass starts with */
    uint8_t mem[SS_HEADROOM + SS_MAX_PACKET + SS_SLACK];
};

/* What a pass through the pipeline knows about its packet, beside the program's own fields. */
struct ss_pass {
    const uint8_t *data, *payload; /* what the parser reads; what follows the parsed headers */
    uint32_t len, parsed, payload_len;
    uint32_t packet_length, ingress_length;
    uint32_t error;
    uint32_t clone, clone_list, resubmit, recirculate, truncate;
    bool checksum_error, exit, failed;
};

/* Header and metadata values; what comes before `h` is cleared for each packet. */
struct ss_phv {
    struct ss_pass x;
    uint8_t valid[SS_NUM_VALID];
    uint32_t next[SS_NUM_STACKS];
    struct ss_meta m;
    struct ss_headers h;
};

struct ss_job {
    struct ss_job *next;
    struct ss_buf *buf;
    uint32_t session;
    struct ss_phv phv;
    struct ss_kept kept; /* what views of phv point at */
};

struct ss_replicas {
    uint32_t count;
    struct {
        uint32_t port, rid;
    } to[];
};

struct ss_session {
    uint32_t truncate; /* bytes; 0: whole packets */
    struct ss_replicas replicas;
};

struct ss_table {
    uint8_t *entries; /* by handle */
    uint8_t *default_entry;
    struct ss_counter *counters; /* by handle, or NULL */
    struct ss_meter *meters;     /* likewise */
    uint64_t *hits;              /* when each entry was added or hit last, in us; likewise */
    struct ss_counter default_counter;
    struct ss_meter default_meter;
    uint64_t room;               /* handles for which there is space */
    struct ss_map map;
    struct ss_lpm lpm;
    struct ss_tuples tuples;
};

#define SS_DEFAULT_ENTRY UINT64_MAX /* in place of a handle */

enum ss_table_kind { SS_KEYLESS, SS_DIRECT, SS_EXACT, SS_LPM, SS_TERNARY };

struct ss_table_info {
    enum ss_table_kind kind;
    uint32_t words;    /* of the exact or ternary key, without the lpm field */
    uint32_t lpm_bits; /* width of the lpm field */
    uint32_t stride;   /* bytes of an entry */
    uint32_t member, members; /* of the tables whose entries lie side by side */
    bool with_counters, with_meters, with_hits;
    /* Writes action `action` (its position in the table's list) and its parameters. */
    void (*encode)(void *entry, uint32_t action, const uint64_t *params);
};

/* Members of a group, by handle: one place per unit of weight. */
struct ss_selection {
    uint32_t count;
    uint32_t members[];
};

/* What an entry of a table with an action profile points to. */
#define SS_GROUP_REF (UINT32_C(1) << 31)
#define SS_NO_MEMBER UINT32_MAX

struct ss_profile {
    uint8_t *members; /* by handle */
    uint64_t room, group_room;
    struct ss_selection **groups; /* by handle */
};

struct ss_profile_info {
    uint32_t stride; /* bytes of a member */
    void (*encode)(void *member, uint32_t action, const uint64_t *params);
};

struct ss_digests;
struct ss_port;
struct ss_io;

struct ss_ctx {
    pthread_mutex_t lock;
    _Atomic uint32_t waiting; /* threads that want the lock: the data plane lets them go first */
    struct ss_table tables[SS_NUM_TABLES];
    struct ss_profile profiles[SS_NUM_PROFILES];
    struct ss_arena direct; /* entries of directly indexed tables */
    struct ss_tuples value_sets[SS_NUM_VALUE_SETS];
    struct ss_digests *digests;
    struct ss_state state;
    struct ss_replicas *groups[SS_MAX_GROUPS];
    struct ss_session *sessions[SS_MAX_SESSIONS];
    uint64_t drops[SS_NUM_REASONS], parser_errors[SS_MAX_ERRORS];
    uint64_t now_us, start_us, random;
    int64_t manual_us; /* the time if it is not negative: for tests */

    struct ss_buf *free_bufs;
    uint32_t buffers;
    struct ss_buf *queue_head, **queue_tail; /* resubmitted and recirculated packets */
    uint32_t queued;
    struct ss_job *jobs_head, **jobs_tail, *free_jobs;

    bool capture, discard; /* where packets go: to `out`, nowhere, or to ports */
    uint8_t *out;
    uint64_t out_len, out_room, sent;

    struct ss_io *io;
    struct ss_log *log;
    uint64_t hints[SS_HINT_WORDS];
    uint32_t hint_length; /* of the packet that they are of: others are not asked for */
    struct ss_phv phv, clone_phv, copy_phv;
};

static inline void ss_drop(struct ss_ctx *c, int reason) { c->drops[reason]++; }

static inline void ss_count_error(struct ss_ctx *c, uint32_t error)
{
    if (error < SS_MAX_ERRORS)
        c->parser_errors[error]++;
}

static inline void ss_count(struct ss_counter *counter, const struct ss_phv *p)
{
    counter->packets++;
    counter->bytes += p->x.ingress_length;
}

/* splitmix64: random numbers are ss_mix64 of the multiples of SS_GOLDEN64. */
#define SS_GOLDEN64 0x9e3779b97f4a7c15u

static inline uint64_t ss_mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t ss_random(struct ss_ctx *c)
{
    return ss_mix64(c->random += SS_GOLDEN64);
}

/* A number in [low, high]. */
static inline uint64_t ss_random_in(struct ss_ctx *c, uint64_t low, uint64_t high)
{
    uint64_t span = high - low + 1;
    return span ? low + (uint64_t)((u128)ss_random(c) * span >> 64) : ss_random(c);
}

#endif
