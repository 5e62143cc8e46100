/* Ternary match by tuple-space search.
 *
 * Rules with the same mask share a group: a hash map from the masked key to the best rule. Groups
 * are ordered by their best priority, so a lookup stops as soon as no later group can win. Its cost
 * grows with the number of different masks, not with the number of entries. */
#ifndef SS_TERNARY_H
#define SS_TERNARY_H

#include "hashmap.h"

struct ss_rule {
    uint32_t handle;
    int32_t priority;
    uint32_t next; /* rule with the same masked key and a lower or equal priority; or SS_NONE */
};

struct ss_group {
    int32_t top; /* best priority in the group */
    uint32_t count;
    uint64_t *mask;
    struct ss_map map; /* masked key to rule */
};

struct ss_tuples {
    struct ss_group *groups;
    uint32_t ngroups, group_room;
    struct ss_rule *rules;
    uint32_t nrules, rule_room, free_rule; /* free_rule: index + 1 */
};

static inline __attribute__((always_inline)) uint32_t
ss_tuples_get(const struct ss_tuples *t, const uint64_t *key, unsigned nw)
{
    uint32_t handle = SS_NONE;
    int32_t best = INT32_MIN;
    for (uint32_t g = 0; g < t->ngroups; g++) {
        const struct ss_group *group = &t->groups[g];
        if (handle != SS_NONE && group->top <= best)
            break;
        uint64_t masked[nw];
        for (unsigned i = 0; i < nw; i++)
            masked[i] = key[i] & group->mask[i];
        uint32_t rule = ss_map_get(&group->map, masked, nw);
        if (rule != SS_NONE && (handle == SS_NONE || t->rules[rule].priority > best)) {
            handle = t->rules[rule].handle;
            best = t->rules[rule].priority;
        }
    }
    return handle;
}

static uint32_t ss_rule_new(struct ss_tuples *t)
{
    if (t->free_rule) {
        uint32_t id = t->free_rule - 1;
        t->free_rule = t->rules[id].next;
        return id;
    }
    if (t->nrules == t->rule_room) {
        uint32_t room = t->rule_room ? 2 * t->rule_room : 16;
        struct ss_rule *rules = realloc(t->rules, room * sizeof *rules);
        if (!rules)
            return SS_NONE;
        t->rules = rules;
        t->rule_room = room;
    }
    return t->nrules++;
}

static struct ss_group *ss_group_find(struct ss_tuples *t, const uint64_t *mask, unsigned nw)
{
    for (uint32_t g = 0; g < t->ngroups; g++)
        if (ss_key_equal(t->groups[g].mask, mask, nw))
            return &t->groups[g];
    return NULL;
}

static struct ss_group *ss_group_add(struct ss_tuples *t, const uint64_t *mask, unsigned nw)
{
    if (t->ngroups == t->group_room) {
        uint32_t room = t->group_room ? 2 * t->group_room : 8;
        struct ss_group *groups = realloc(t->groups, room * sizeof *groups);
        if (!groups)
            return NULL;
        t->groups = groups;
        t->group_room = room;
    }
    struct ss_group *group = &t->groups[t->ngroups];
    memset(group, 0, sizeof *group);
    group->top = INT32_MIN;
    group->mask = malloc(nw * sizeof(uint64_t));
    if (!group->mask)
        return NULL;
    memcpy(group->mask, mask, nw * sizeof(uint64_t));
    t->ngroups++;
    return group;
}

/* Moves a group whose top changed to its place in the order. */
static void ss_group_resort(struct ss_tuples *t, uint32_t g)
{
    struct ss_group moved = t->groups[g];
    while (g > 0 && t->groups[g - 1].top < moved.top) {
        t->groups[g] = t->groups[g - 1];
        g--;
    }
    while (g + 1 < t->ngroups && t->groups[g + 1].top > moved.top) {
        t->groups[g] = t->groups[g + 1];
        g++;
    }
    t->groups[g] = moved;
}

static bool ss_tuples_add(struct ss_tuples *t, const uint64_t *key, const uint64_t *mask,
                          unsigned nw, int32_t priority, uint32_t handle)
{
    struct ss_group *group = ss_group_find(t, mask, nw);
    if (!group && !(group = ss_group_add(t, mask, nw)))
        return false;
    uint32_t id = ss_rule_new(t);
    if (id == SS_NONE)
        return false;
    struct ss_rule *rule = &t->rules[id];
    *rule = (struct ss_rule){handle, priority, SS_NONE};
    uint32_t head = ss_map_get(&group->map, key, nw);
    if (head == SS_NONE || t->rules[head].priority < priority) {
        rule->next = head;
        if (!ss_map_set(&group->map, key, nw, id)) {
            rule->next = t->free_rule;
            t->free_rule = id + 1;
            return false;
        }
    } else {
        while (t->rules[head].next != SS_NONE
               && t->rules[t->rules[head].next].priority >= priority)
            head = t->rules[head].next;
        rule->next = t->rules[head].next;
        t->rules[head].next = id;
    }
    group->count++;
    if (priority > group->top) {
        group->top = priority;
        ss_group_resort(t, (uint32_t)(group - t->groups));
    }
    return true;
}

/* The highest priority left in a group. */
static int32_t ss_group_top(const struct ss_tuples *t, const struct ss_group *group, unsigned nw)
{
    int32_t top = INT32_MIN;
    for (uint64_t i = 0; i <= group->map.mask; i++) {
        uint64_t stored = group->map.slots[i * (nw + 1) + nw];
        if (stored && t->rules[stored - 1].priority > top)
            top = t->rules[stored - 1].priority;
    }
    return top;
}

static void ss_tuples_remove(struct ss_tuples *t, const uint64_t *key, const uint64_t *mask,
                             unsigned nw, uint32_t handle)
{
    struct ss_group *group = ss_group_find(t, mask, nw);
    if (!group)
        return;
    uint32_t id = ss_map_get(&group->map, key, nw), before = SS_NONE;
    while (id != SS_NONE && t->rules[id].handle != handle) {
        before = id;
        id = t->rules[id].next;
    }
    if (id == SS_NONE)
        return;
    struct ss_rule removed = t->rules[id];
    if (before != SS_NONE)
        t->rules[before].next = removed.next;
    else if (removed.next != SS_NONE)
        ss_map_place(&group->map, key, nw, (uint64_t)removed.next + 1);
    else
        ss_map_remove(&group->map, key, nw);
    t->rules[id].next = t->free_rule;
    t->free_rule = id + 1;
    uint32_t g = (uint32_t)(group - t->groups);
    if (--group->count == 0) {
        free(group->mask);
        ss_map_free(&group->map);
        memmove(group, group + 1, (t->ngroups - g - 1) * sizeof *group);
        t->ngroups--;
    } else if (removed.priority == group->top) {
        group->top = ss_group_top(t, group, nw);
        ss_group_resort(t, g);
    }
}

static void ss_tuples_free(struct ss_tuples *t)
{
    for (uint32_t g = 0; g < t->ngroups; g++) {
        free(t->groups[g].mask);
        ss_map_free(&t->groups[g].map);
    }
    free(t->groups);
    free(t->rules);
    memset(t, 0, sizeof *t);
}

#endif
