/* Longest prefix match: a trie with strides of 8 bits.
 *
 * The prefix is given left-aligned in 64-bit words, most significant first. A slot of a node holds
 * the handle of the longest prefix that ends in this node and covers it, and the child node. The
 * prefixes of a node are kept as a binary tree (index 1 is the empty one), from which slots are
 * filled again after a change. */
#ifndef SS_LPM_H
#define SS_LPM_H

#include "hashmap.h"

struct ss_lpm_slot {
    uint32_t handle; /* + 1; 0: none */
    uint32_t child;  /* 0: none */
};

struct ss_lpm_node {
    struct ss_lpm_slot slots[256];
    uint32_t prefixes[512]; /* handle + 1 by (1 << length) | bits */
    uint32_t used;          /* prefixes and children */
};

struct ss_lpm {
    struct ss_lpm_node **nodes; /* [0] is never used */
    uint32_t count, room, free_list;
};

static inline uint8_t ss_lpm_byte(const uint64_t *key, unsigned i)
{
    return (uint8_t)(key[i / 8] >> (56 - 8 * (i % 8)));
}

static inline __attribute__((always_inline)) uint32_t
ss_lpm_get(const struct ss_lpm *t, uint32_t root, const uint64_t *key, unsigned nbytes)
{
    uint32_t best = 0;
#pragma GCC unroll 4
    for (unsigned i = 0; root && i < nbytes; i++) {
        const struct ss_lpm_slot *slot = &t->nodes[root]->slots[ss_lpm_byte(key, i)];
        if (slot->handle)
            best = slot->handle;
        root = slot->child;
    }
    return best ? best - 1 : SS_NONE;
}

static uint32_t ss_lpm_new(struct ss_lpm *t)
{
    if (t->free_list) {
        uint32_t id = t->free_list;
        t->free_list = t->nodes[id]->used;
        memset(t->nodes[id], 0, sizeof **t->nodes);
        return id;
    }
    if (t->count + 1 >= t->room) {
        uint32_t room = t->room ? 2 * t->room : 16;
        struct ss_lpm_node **nodes = realloc(t->nodes, room * sizeof *nodes);
        if (!nodes)
            return 0;
        t->nodes = nodes;
        t->room = room;
    }
    struct ss_lpm_node *node = calloc(1, sizeof *node);
    if (!node)
        return 0;
    t->nodes[++t->count] = node;
    return t->count;
}

static void ss_lpm_release(struct ss_lpm *t, uint32_t id)
{
    t->nodes[id]->used = t->free_list;
    t->free_list = id;
}

static void ss_lpm_refill(struct ss_lpm_node *node, unsigned bits, unsigned length)
{
    unsigned first = bits << (8 - length), n = 1u << (8 - length);
    for (unsigned s = first; s < first + n; s++) {
        uint32_t handle = 0;
        for (int k = 8; k >= 0 && !handle; k--)
            handle = node->prefixes[(1u << k) | (s >> (8 - k))];
        node->slots[s].handle = handle;
    }
}

/* Sets (handle + 1) or clears (0) a prefix below *root; false when there is no memory.
 * Nodes that become empty are released; *root becomes 0 with the last prefix. */
static bool ss_lpm_set(struct ss_lpm *t, uint32_t *root, const uint64_t *key, unsigned length,
                       uint32_t stored)
{
    if (!*root && !(*root = ss_lpm_new(t)))
        return false;
    struct ss_lpm_node *node = t->nodes[*root];
    if (length > 8) {
        uint64_t rest[32];
        unsigned nw = (length + 63) / 64;
        for (unsigned i = 0; i < nw; i++)
            rest[i] = (key[i] << 8) | (i + 1 < nw ? key[i + 1] >> 56 : 0);
        struct ss_lpm_slot *slot = &node->slots[key[0] >> 56];
        uint32_t child = slot->child;
        bool ok = ss_lpm_set(t, &child, rest, length - 8, stored);
        node->used += (child && !slot->child) - (!child && slot->child);
        slot->child = child;
        if (!ok && !node->used) {
            ss_lpm_release(t, *root);
            *root = 0;
        }
        if (!ok)
            return false;
    } else {
        unsigned bits = length ? (unsigned)(key[0] >> (64 - length)) : 0;
        uint32_t *prefix = &node->prefixes[(1u << length) | bits];
        node->used += (stored && !*prefix) - (!stored && *prefix);
        *prefix = stored;
        ss_lpm_refill(node, bits, length);
    }
    if (!node->used) {
        ss_lpm_release(t, *root);
        *root = 0;
    }
    return true;
}

static void ss_lpm_free(struct ss_lpm *t)
{
    for (uint32_t i = 1; i <= t->count; i++)
        free(t->nodes[i]);
    free(t->nodes);
    memset(t, 0, sizeof *t);
}

#endif
