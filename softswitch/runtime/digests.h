/* Digests: messages of packets to the control plane.
 *
 * The data plane never waits: a message goes into a ring of a fixed size, or is counted and lost.
 * While the control plane has not forgotten a message, the same one is not queued again; at most
 * SS_DIGEST_KNOWN messages of a kind are remembered, further ones are counted and lost. */
#ifndef SS_DIGESTS_H
#define SS_DIGESTS_H

#include <sys/eventfd.h>

#include "core.h"

enum { SS_DIGEST_RING = 8192, SS_DIGEST_KNOWN = 65536 };

struct ss_digest {
    bool enabled;
    struct ss_map known; /* messages that are queued or not forgotten yet */
};

struct ss_digests {
    struct ss_digest kinds[SS_NUM_DIGESTS];
    int event; /* readable while the ring is not empty */
    uint32_t first, count;
    uint64_t ring[SS_DIGEST_RING][1 + SS_DIGEST_WORDS]; /* the kind, then the message */
};

/* Queues a message of `nw` words. */
static void ss_digest_send(struct ss_ctx *c, uint32_t kind, const uint64_t *words, unsigned nw)
{
    struct ss_digests *q = c->digests;
    struct ss_digest *d = &q->kinds[kind];
    if (!d->enabled || ss_map_get(&d->known, words, nw) != SS_NONE)
        return;
    if (q->count == SS_DIGEST_RING || d->known.used >= SS_DIGEST_KNOWN
        || !ss_map_set(&d->known, words, nw, 1)) {
        ss_drop(c, SS_digest_queue_full);
        return;
    }
    uint64_t *slot = q->ring[(q->first + q->count) % SS_DIGEST_RING];
    slot[0] = kind;
    memcpy(slot + 1, words, nw * sizeof *words);
    if (!q->count++)
        eventfd_write(q->event, 1);
}

static bool ss_digests_open(struct ss_ctx *c)
{
    struct ss_digests *q = c->digests = calloc(1, sizeof *q);
    return q && (q->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0;
}

#endif
