/* Ternary match by tuple-space search with merged tuples.
 *
 * A lookup probes groups in the order of their best priority until none can win any more. Rules of
 * different masks share a group as long as buckets stay short; one that grows too long is split:
 * its most specific rules move to a group whose mask has more bits, as many as tell them apart.
 * So cost grows with what masks have in common, hardly with their number. The idea is that of
 * TupleMerge (Daly et al., 2019), for any masks, not only prefixes. */
#ifndef SS_TERNARY_H
#define SS_TERNARY_H

#include "tuples.h"

enum {
    SS_BUCKET_LIMIT = 8,                   /* rules, beyond which a bucket is split */
    SS_SPLIT_LIMIT = 2 * SS_BUCKET_LIMIT, /* rules of a bucket that a split looks at */
};

static inline __attribute__((always_inline)) uint32_t
ss_tuples_get(const struct ss_tuples *t, const uint64_t *key, unsigned nw)
{
    uint32_t handle = SS_NONE;
    int32_t best = INT32_MIN;
    for (uint32_t g = 0; g < t->ngroups; g++) {
        const struct ss_group *group = t->groups[g];
        if (handle != SS_NONE && group->top <= best)
            break;
        const struct ss_rule *rule;
        for (uint32_t id = ss_bucket(group, key, nw); id != SS_NONE; id = rule->next) {
            rule = ss_rule_at(t, id, nw);
            if (handle != SS_NONE && rule->priority <= best)
                break;
            uint64_t differs = 0;
            for (unsigned i = 0; i < nw; i++)
                differs |= (key[i] ^ rule->words[i]) & rule->words[nw + i];
            if (differs)
                continue;
            handle = rule->handle;
            best = rule->priority;
            break;
        }
    }
    return handle;
}

/* Where a rule is, or could be. */
struct ss_spot {
    struct ss_group *group; /* the one that holds it; or the most specific one with room, or any */
    uint32_t rule;          /* the first one with the same key and mask, or SS_NONE */
    bool room;              /* its bucket is not full */
};

/* Looks for key and mask (`words`) in all groups but one that may hold them. */
static struct ss_spot ss_spot_find(const struct ss_tuples *t, const uint64_t *words, unsigned nw,
                                   const struct ss_group *except)
{
    struct ss_spot spot = {NULL, SS_NONE, false};
    unsigned most = 0;
    for (uint32_t g = 0; g < t->ngroups; g++) {
        struct ss_group *group = t->groups[g];
        if (group == except || !ss_mask_within(group->mask, words + nw, nw))
            continue;
        unsigned length = 0, bits = ss_mask_bits(group->mask, nw);
        const struct ss_rule *rule;
        for (uint32_t id = ss_bucket(group, words, nw); id != SS_NONE; id = rule->next) {
            rule = ss_rule_at(t, id, nw);
            if (ss_key_equal(rule->words, words, 2 * nw))
                return (struct ss_spot){group, id, true};
            length++;
        }
        bool room = length < SS_BUCKET_LIMIT;
        if (!spot.group || room > spot.room || (room == spot.room && bits > most)) {
            spot = (struct ss_spot){group, SS_NONE, room};
            most = bits;
        }
    }
    return spot;
}

static bool ss_rule_move(struct ss_tuples *t, uint32_t id, unsigned nw, struct ss_group *from,
                         struct ss_group *to)
{
    ss_rule_unlink(t, from, id, nw);
    if (ss_rule_link(t, to, id, nw))
        return true;
    ss_rule_link(t, from, id, nw);
    return false;
}

/* Adds to `mask` the upper half of each run of bits that `goal` has beyond it. */
static void ss_mask_extend(uint64_t *mask, const uint64_t *goal, unsigned nw)
{
    for (unsigned i = 0; i < nw; i++)
        for (uint64_t more = goal[i] & ~mask[i]; more;) {
            unsigned end = 64 - (unsigned)__builtin_clzll(more), start = end;
            while (start > 0 && more >> (start - 1) & 1)
                start--;
            for (unsigned bit = start; bit < end; bit++) {
                more &= ~(UINT64_C(1) << bit);
                if (2 * (bit - start) >= end - start - 1)
                    mask[i] |= UINT64_C(1) << bit;
            }
        }
}

/* Whether all rules have different keys under a mask. */
static bool ss_mask_separates(const struct ss_tuples *t, const uint64_t *mask, const uint32_t *ids,
                              unsigned count, unsigned nw)
{
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = 0; b < a; b++) {
            const uint64_t *one = ss_rule_at(t, ids[a], nw)->words;
            const uint64_t *two = ss_rule_at(t, ids[b], nw)->words;
            uint64_t differs = 0;
            for (unsigned i = 0; i < nw; i++)
                differs |= (one[i] ^ two[i]) & mask[i];
            if (!differs)
                return false;
        }
    return true;
}

/* Moves rules of one bucket to a new group, whose mask has as few bits more as tell them apart;
 * false if all masks that would do are taken: their buckets are full. */
static bool ss_rules_split(struct ss_tuples *t, struct ss_group *group, const uint32_t *ids,
                           unsigned count, unsigned nw)
{
    uint64_t mask[nw], goal[nw];
    memset(goal, 0xff, sizeof goal);
    for (unsigned a = 0; a < count; a++)
        for (unsigned i = 0; i < nw; i++)
            goal[i] &= ss_rule_at(t, ids[a], nw)->words[nw + i];
    memcpy(mask, group->mask, sizeof mask);
    do {
        if (ss_key_equal(mask, goal, nw))
            return false;
        ss_mask_extend(mask, goal, nw);
    } while (ss_group_exists(t, mask, nw)
             || (!ss_key_equal(mask, goal, nw) && !ss_mask_separates(t, mask, ids, count, nw)));
    struct ss_group *finer = ss_group_add(t, mask, nw);
    if (!finer)
        return false;
    for (unsigned a = 0; a < count; a++)
        ss_rule_move(t, ids[a], nw, group, finer);
    if (!finer->count)
        ss_group_drop(t, finer);
    return true;
}

/* Reads rules of a bucket into `ids`, those with the most specific masks first. */
static unsigned ss_bucket_rules(const struct ss_tuples *t, const struct ss_group *group,
                                const uint64_t *key, unsigned nw, uint32_t *ids)
{
    unsigned bits[SS_SPLIT_LIMIT], count = 0;
    uint32_t id = ss_bucket(group, key, nw);
    for (; id != SS_NONE && count < SS_SPLIT_LIMIT; id = ss_rule_at(t, id, nw)->next) {
        unsigned own = ss_mask_bits(ss_rule_at(t, id, nw)->words + nw, nw), at = count++;
        for (; at > 0 && bits[at - 1] < own; at--) {
            bits[at] = bits[at - 1];
            ids[at] = ids[at - 1];
        }
        bits[at] = own;
        ids[at] = id;
    }
    return count;
}

/* Shortens a bucket. It stays as long as it is when memory, or masks that would help, are out. */
static void ss_bucket_split(struct ss_tuples *t, struct ss_group *group, const uint64_t *key,
                            unsigned nw)
{
    uint32_t ids[SS_SPLIT_LIMIT];
    unsigned count = ss_bucket_rules(t, group, key, nw, ids);
    for (unsigned a = 0; a < count; a++) {
        struct ss_spot spot = ss_spot_find(t, ss_rule_at(t, ids[a], nw)->words, nw, group);
        if (spot.group && spot.room && ss_rule_move(t, ids[a], nw, group, spot.group))
            return;
    }
    for (unsigned many = count / 2; many > 1; many--)
        if (ss_rules_split(t, group, ids, many, nw))
            return;
    for (unsigned a = 0; a < count; a++)
        if (ss_rules_split(t, group, ids + a, 1, nw))
            return;
}

/* Adds a rule to those with the same key and mask, of which `head` is in a bucket. */
static void ss_rule_join(struct ss_tuples *t, struct ss_group *group, uint32_t head, uint32_t id,
                         unsigned nw)
{
    struct ss_rule *rule = ss_rule_at(t, id, nw);
    if (ss_rule_at(t, head, nw)->priority < rule->priority) {
        ss_rule_unlink(t, group, head, nw);
        rule->below = head;
        ss_rule_link(t, group, id, nw);
        return;
    }
    uint32_t next = ss_rule_at(t, head, nw)->below;
    while (next != SS_NONE && ss_rule_at(t, next, nw)->priority >= rule->priority) {
        head = next;
        next = ss_rule_at(t, next, nw)->below;
    }
    rule->below = next;
    ss_rule_at(t, head, nw)->below = id;
}

/* Adds a rule, given by its key and mask in `words`; false, and nothing done, without memory. */
static bool ss_tuples_add(struct ss_tuples *t, const uint64_t *words, unsigned nw,
                          int32_t priority, uint32_t handle)
{
    uint32_t id = ss_rule_new(t, nw);
    if (id == SS_NONE)
        return false;
    struct ss_rule *rule = ss_rule_at(t, id, nw);
    *rule = (struct ss_rule){.handle = handle, .priority = priority, .next = SS_NONE,
                             .below = SS_NONE};
    memcpy(rule->words, words, 2 * nw * sizeof(uint64_t));
    struct ss_spot spot = ss_spot_find(t, words, nw, NULL);
    if (spot.rule != SS_NONE) {
        ss_rule_join(t, spot.group, spot.rule, id, nw);
        return true;
    }
    uint64_t none[nw];
    memset(none, 0, sizeof none);
    bool fresh = !spot.group;
    if (fresh)
        spot = (struct ss_spot){ss_group_add(t, none, nw), SS_NONE, true};
    if (!spot.group || !ss_rule_link(t, spot.group, id, nw)) {
        if (fresh && spot.group)
            ss_group_drop(t, spot.group);
        ss_rule_free(t, id, nw);
        return false;
    }
    if (!spot.room)
        ss_bucket_split(t, spot.group, words, nw);
    return true;
}

static void ss_tuples_remove(struct ss_tuples *t, const uint64_t *words, unsigned nw,
                             uint32_t handle)
{
    struct ss_spot spot = ss_spot_find(t, words, nw, NULL);
    uint32_t id = spot.rule, above = SS_NONE;
    while (id != SS_NONE && ss_rule_at(t, id, nw)->handle != handle) {
        above = id;
        id = ss_rule_at(t, id, nw)->below;
    }
    if (id == SS_NONE)
        return;
    uint32_t below = ss_rule_at(t, id, nw)->below;
    if (above != SS_NONE) {
        ss_rule_at(t, above, nw)->below = below;
    } else {
        ss_rule_unlink(t, spot.group, id, nw);
        if (below != SS_NONE)
            ss_rule_link(t, spot.group, below, nw);
        if (!spot.group->count)
            ss_group_drop(t, spot.group);
    }
    ss_rule_free(t, id, nw);
}

#endif
