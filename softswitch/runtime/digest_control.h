/* Digests as the control plane sees them. */
#ifndef SS_DIGEST_CONTROL_H
#define SS_DIGEST_CONTROL_H

#include <unistd.h>

#include "digests.h"
#include "io.h"

static void ss_digests_close(struct ss_ctx *c)
{
    struct ss_digests *q = c->digests;
    if (!q)
        return;
    for (uint32_t i = 0; i < SS_NUM_DIGESTS; i++)
        ss_map_free(&q->kinds[i].known);
    if (q->event >= 0)
        close(q->event);
    free(q);
}

/* Lets packets send messages of a kind, or not; the control plane remembers none of them then. */
void ss_digest_enable(struct ss_ctx *c, uint32_t kind, int enabled)
{
    struct ss_digest *d = &c->digests->kinds[kind];
    ss_lock(c);
    d->enabled = enabled != 0;
    ss_map_free(&d->known);
    ss_unlock(c);
}

int ss_digest_event(struct ss_ctx *c) { return c->digests->event; }

/* Makes who waits for the event look. */
void ss_digest_wake(struct ss_ctx *c) { eventfd_write(c->digests->event, 1); }

/* Takes up to `room` messages, of 1 + SS_DIGEST_WORDS words each; returns how many. */
uint32_t ss_digest_take(struct ss_ctx *c, uint64_t *out, uint32_t room)
{
    struct ss_digests *q = c->digests;
    eventfd_t ignored;
    ss_lock(c);
    uint32_t n = q->count < room ? q->count : room;
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + i * (1 + SS_DIGEST_WORDS), q->ring[(q->first + i) % SS_DIGEST_RING],
               sizeof q->ring[0]);
    q->first = (q->first + n) % SS_DIGEST_RING;
    q->count -= n;
    eventfd_read(q->event, &ignored);
    if (q->count)
        eventfd_write(q->event, 1);
    ss_unlock(c);
    return n;
}

/* Forgets `count` messages of a kind, of `nw` words each: they may come again. */
void ss_digest_forget(struct ss_ctx *c, uint32_t kind, const uint64_t *words, uint32_t nw,
                      uint32_t count)
{
    ss_lock(c);
    for (uint32_t i = 0; i < count; i++)
        ss_map_remove(&c->digests->kinds[kind].known, words + i * nw, nw);
    ss_unlock(c);
}

#endif
