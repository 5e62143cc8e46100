/* Open-addressing map from keys of `nw` 64-bit words to a 32-bit value.
 *
 * A slot is nw key words and one word that holds value + 1 (0: free). Linear probing, at most half
 * full, deletion by shifting back: no tombstones, so a lookup stops at the first free slot. */
#ifndef SS_HASHMAP_H
#define SS_HASHMAP_H

#include <stdlib.h>

#include "bits.h"

struct ss_map {
    uint64_t *slots;
    uint64_t mask; /* number of slots - 1 */
    uint64_t used;
};

#define SS_NONE UINT32_MAX

/* Multiplies and folds: low bits of the result depend on all bits of the key, also when only its
 * upper ones differ, as under a mask. */
static inline __attribute__((always_inline)) uint64_t ss_map_hash(const uint64_t *key, unsigned nw)
{
    uint64_t h = 0;
    for (unsigned i = 0; i < nw; i++) {
        u128 product = (u128)(h ^ key[i]) * 0x9e3779b97f4a7c15u;
        h = (uint64_t)(product >> 64) ^ (uint64_t)product;
    }
    return h;
}

static inline __attribute__((always_inline)) bool ss_key_equal(const uint64_t *a, const uint64_t *b,
                                                              unsigned nw)
{
    uint64_t diff = 0;
    for (unsigned i = 0; i < nw; i++)
        diff |= a[i] ^ b[i];
    return diff == 0;
}

static inline __attribute__((always_inline)) uint32_t ss_map_get(const struct ss_map *m,
                                                                const uint64_t *key, unsigned nw)
{
    if (!m->used)
        return SS_NONE;
    for (uint64_t i = ss_map_hash(key, nw);; i++) {
        const uint64_t *slot = m->slots + (i & m->mask) * (nw + 1);
        if (!slot[nw])
            return SS_NONE;
        if (ss_key_equal(slot, key, nw))
            return (uint32_t)(slot[nw] - 1);
    }
}

static void ss_map_place(struct ss_map *m, const uint64_t *key, unsigned nw, uint64_t stored)
{
    for (uint64_t i = ss_map_hash(key, nw);; i++) {
        uint64_t *slot = m->slots + (i & m->mask) * (nw + 1);
        if (slot[nw] && !ss_key_equal(slot, key, nw))
            continue;
        m->used += !slot[nw];
        memcpy(slot, key, nw * sizeof(uint64_t));
        slot[nw] = stored;
        return;
    }
}

/* Sets key to value; false when there is no memory. */
static bool ss_map_set(struct ss_map *m, const uint64_t *key, unsigned nw, uint32_t value)
{
    if (!m->slots || 2 * (m->used + 1) > m->mask + 1) {
        uint64_t size = m->slots ? 2 * (m->mask + 1) : 8;
        struct ss_map grown = {calloc(size, (nw + 1) * sizeof(uint64_t)), size - 1, 0};
        if (!grown.slots)
            return false;
        for (uint64_t i = 0; m->slots && i <= m->mask; i++) {
            const uint64_t *slot = m->slots + i * (nw + 1);
            if (slot[nw])
                ss_map_place(&grown, slot, nw, slot[nw]);
        }
        free(m->slots);
        *m = grown;
    }
    ss_map_place(m, key, nw, (uint64_t)value + 1);
    return true;
}

static void ss_map_remove(struct ss_map *m, const uint64_t *key, unsigned nw)
{
    if (!m->used)
        return;
    uint64_t i = ss_map_hash(key, nw) & m->mask;
    for (;; i = (i + 1) & m->mask) {
        if (!m->slots[i * (nw + 1) + nw])
            return;
        if (ss_key_equal(m->slots + i * (nw + 1), key, nw))
            break;
    }
    m->used--;
    for (uint64_t j = (i + 1) & m->mask;; j = (j + 1) & m->mask) {
        uint64_t *slot = m->slots + j * (nw + 1);
        if (!slot[nw])
            break;
        uint64_t home = ss_map_hash(slot, nw) & m->mask;
        /* The entry may move back to i unless its home lies cyclically in (i, j]. */
        if (((j - home) & m->mask) >= ((j - i) & m->mask)) {
            memcpy(m->slots + i * (nw + 1), slot, (nw + 1) * sizeof(uint64_t));
            i = j;
        }
    }
    m->slots[i * (nw + 1) + nw] = 0;
}

static void ss_map_free(struct ss_map *m)
{
    free(m->slots);
    memset(m, 0, sizeof *m);
}

#endif
