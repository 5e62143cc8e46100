/* Rules of a ternary table, in groups that are hashed by a mask of their own.
 *
 * A group's mask is part of the mask of each of its rules. Rules that agree under the group's mask
 * share a bucket, best priority first, and are compared in full. */
#ifndef SS_TUPLES_H
#define SS_TUPLES_H

#include "hashmap.h"

struct ss_rule {
    uint32_t handle;
    int32_t priority;
    uint32_t next;    /* rule of the same bucket with a lower or equal priority; or SS_NONE */
    uint32_t below;   /* the same with the same key and mask: it cannot match before this one */
    uint64_t words[]; /* key, then mask */
};

struct ss_group {
    int32_t top;      /* no rule has a better priority */
    uint32_t count;   /* rules in buckets, without those below others */
    uint64_t removed; /* rules, since top was exact */
    struct ss_map map; /* masked key to the first rule of a bucket */
    uint64_t mask[];
};

struct ss_tuples {
    struct ss_group **groups; /* by top, best first */
    uint32_t ngroups, group_room;
    uint8_t *rules;
    uint32_t nrules, rule_room, free_rule; /* free_rule: index + 1 */
};

static inline __attribute__((always_inline)) struct ss_rule *
ss_rule_at(const struct ss_tuples *t, uint32_t id, unsigned nw)
{
    return (struct ss_rule *)(t->rules
                              + id * (sizeof(struct ss_rule) + 2 * nw * sizeof(uint64_t)));
}

/* The first rule of the bucket that a key falls into, or SS_NONE. */
static inline __attribute__((always_inline)) uint32_t
ss_bucket(const struct ss_group *group, const uint64_t *key, unsigned nw)
{
    uint64_t masked[nw];
    for (unsigned i = 0; i < nw; i++)
        masked[i] = key[i] & group->mask[i];
    return ss_map_get(&group->map, masked, nw);
}

/* Lets a bucket begin with a rule, or removes it with SS_NONE; only a new one may lack memory. */
static bool ss_bucket_set(struct ss_group *group, const uint64_t *key, unsigned nw, uint32_t rule)
{
    uint64_t masked[nw];
    for (unsigned i = 0; i < nw; i++)
        masked[i] = key[i] & group->mask[i];
    if (rule == SS_NONE)
        ss_map_remove(&group->map, masked, nw);
    else if (ss_map_get(&group->map, masked, nw) == SS_NONE)
        return ss_map_set(&group->map, masked, nw, rule);
    else
        ss_map_place(&group->map, masked, nw, (uint64_t)rule + 1);
    return true;
}

static uint32_t ss_rule_new(struct ss_tuples *t, unsigned nw)
{
    if (t->free_rule) {
        uint32_t id = t->free_rule - 1;
        t->free_rule = ss_rule_at(t, id, nw)->next;
        return id;
    }
    if (t->nrules == t->rule_room) {
        uint32_t room = t->rule_room ? 2 * t->rule_room : 16;
        size_t size = sizeof(struct ss_rule) + 2 * nw * sizeof(uint64_t);
        uint8_t *rules = realloc(t->rules, room * size);
        if (!rules)
            return SS_NONE;
        t->rules = rules;
        t->rule_room = room;
    }
    return t->nrules++;
}

static void ss_rule_free(struct ss_tuples *t, uint32_t id, unsigned nw)
{
    ss_rule_at(t, id, nw)->next = t->free_rule;
    t->free_rule = id + 1;
}

static bool ss_mask_within(const uint64_t *part, const uint64_t *whole, unsigned nw)
{
    uint64_t more = 0;
    for (unsigned i = 0; i < nw; i++)
        more |= part[i] & ~whole[i];
    return more == 0;
}

static unsigned ss_mask_bits(const uint64_t *mask, unsigned nw)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < nw; i++)
        bits += (unsigned)__builtin_popcountll(mask[i]);
    return bits;
}

static bool ss_group_exists(const struct ss_tuples *t, const uint64_t *mask, unsigned nw)
{
    for (uint32_t g = 0; g < t->ngroups; g++)
        if (ss_key_equal(t->groups[g]->mask, mask, nw))
            return true;
    return false;
}

static struct ss_group *ss_group_add(struct ss_tuples *t, const uint64_t *mask, unsigned nw)
{
    if (t->ngroups == t->group_room) {
        uint32_t room = t->group_room ? 2 * t->group_room : 8;
        struct ss_group **groups = realloc(t->groups, room * sizeof(struct ss_group *));
        if (!groups)
            return NULL;
        t->groups = groups;
        t->group_room = room;
    }
    struct ss_group *group = calloc(1, sizeof *group + nw * sizeof(uint64_t));
    if (!group)
        return NULL;
    group->top = INT32_MIN;
    memcpy(group->mask, mask, nw * sizeof(uint64_t));
    return t->groups[t->ngroups++] = group;
}

static void ss_group_free(struct ss_group *group)
{
    ss_map_free(&group->map);
    free(group);
}

static uint32_t ss_group_place(const struct ss_tuples *t, const struct ss_group *group)
{
    uint32_t g = 0;
    while (t->groups[g] != group)
        g++;
    return g;
}

static void ss_group_drop(struct ss_tuples *t, struct ss_group *group)
{
    uint32_t g = ss_group_place(t, group);
    ss_group_free(group);
    memmove(t->groups + g, t->groups + g + 1, (--t->ngroups - g) * sizeof(struct ss_group *));
}

/* Moves a group whose top changed to its place in the order. */
static void ss_group_resort(struct ss_tuples *t, struct ss_group *group)
{
    uint32_t g = ss_group_place(t, group);
    for (; g > 0 && t->groups[g - 1]->top < group->top; g--)
        t->groups[g] = t->groups[g - 1];
    for (; g + 1 < t->ngroups && t->groups[g + 1]->top > group->top; g++)
        t->groups[g] = t->groups[g + 1];
    t->groups[g] = group;
}

/* Puts a rule into its bucket, behind those of the same priority. */
static bool ss_rule_link(struct ss_tuples *t, struct ss_group *group, uint32_t id, unsigned nw)
{
    struct ss_rule *rule = ss_rule_at(t, id, nw);
    uint32_t next = ss_bucket(group, rule->words, nw), before = SS_NONE;
    while (next != SS_NONE && ss_rule_at(t, next, nw)->priority >= rule->priority) {
        before = next;
        next = ss_rule_at(t, next, nw)->next;
    }
    if (before != SS_NONE)
        ss_rule_at(t, before, nw)->next = id;
    else if (!ss_bucket_set(group, rule->words, nw, id))
        return false;
    rule->next = next;
    group->count++;
    if (rule->priority > group->top) {
        group->top = rule->priority;
        ss_group_resort(t, group);
    }
    return true;
}

/* Lowers the bound on a group's priorities, seldom enough that a removal costs little. */
static void ss_group_lower(struct ss_tuples *t, struct ss_group *group, unsigned nw)
{
    if (4 * ++group->removed <= group->map.mask)
        return;
    group->removed = 0;
    int32_t top = INT32_MIN;
    for (uint64_t i = 0; i <= group->map.mask; i++) {
        uint64_t stored = group->map.slots[i * (nw + 1) + nw];
        if (stored && ss_rule_at(t, (uint32_t)(stored - 1), nw)->priority > top)
            top = ss_rule_at(t, (uint32_t)(stored - 1), nw)->priority;
    }
    if (top != group->top) {
        group->top = top;
        ss_group_resort(t, group);
    }
}

/* Takes a rule out of its bucket; there is always memory to link one there again. */
static void ss_rule_unlink(struct ss_tuples *t, struct ss_group *group, uint32_t id, unsigned nw)
{
    struct ss_rule *rule = ss_rule_at(t, id, nw);
    uint32_t other = ss_bucket(group, rule->words, nw);
    if (other == id) {
        ss_bucket_set(group, rule->words, nw, rule->next);
    } else {
        while (ss_rule_at(t, other, nw)->next != id)
            other = ss_rule_at(t, other, nw)->next;
        ss_rule_at(t, other, nw)->next = rule->next;
    }
    group->count--;
    ss_group_lower(t, group, nw);
}

static void ss_tuples_free(struct ss_tuples *t)
{
    for (uint32_t g = 0; g < t->ngroups; g++)
        ss_group_free(t->groups[g]);
    free(t->groups);
    free(t->rules);
    memset(t, 0, sizeof *t);
}

#endif
