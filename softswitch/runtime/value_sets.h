/* Parser value sets: what a transition matches against, written as a whole. */
#ifndef SS_VALUE_SETS_H
#define SS_VALUE_SETS_H

#include "io.h"

static void ss_value_sets_close(struct ss_ctx *c)
{
    for (uint32_t i = 0; i < SS_NUM_VALUE_SETS; i++)
        ss_tuples_free(&c->value_sets[i]);
}

/* Replaces the members of a set by `count` pairs of a key and a mask, of `nw` words each. */
int ss_value_set_write(struct ss_ctx *c, uint32_t which, const uint64_t *words, uint32_t nw,
                       uint32_t count)
{
    struct ss_tuples fresh = {0}, old;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *key = words + 2 * (uint64_t)i * nw;
        if (!ss_tuples_add(&fresh, key, nw, 0, 0)) {
            ss_tuples_free(&fresh);
            return -ENOMEM;
        }
    }
    ss_lock(c);
    old = c->value_sets[which];
    c->value_sets[which] = fresh;
    ss_unlock(c);
    ss_tuples_free(&old);
    return 0;
}

#endif
