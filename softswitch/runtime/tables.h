/* Tables, counters and registers as the control plane sees them. */
#ifndef SS_TABLES_H
#define SS_TABLES_H

#include "io.h"

enum { SS_MAX_KEY_WORDS = 128 };

/* A longer copy of an array, zero where it is new; NULL, and the array as it was, without memory. */
static void *ss_grown(void *array, uint64_t from, uint64_t to, size_t size)
{
    uint8_t *grown = realloc(array, to * size);
    if (grown)
        memset(grown + from * size, 0, (to - from) * size);
    return grown;
}

#define SS_GROW(array, from, to, size) \
    ((grown = ss_grown(array, from, to, size)) && ((array) = grown, true))

static bool ss_table_reserve(struct ss_table *t, const struct ss_table_info *info, uint64_t handle)
{
    if (handle < t->room)
        return true;
    void *grown;
    uint64_t room = t->room ? t->room : 16;
    while (room <= handle)
        room *= 2;
    if (!SS_GROW(t->entries, t->room, room, info->stride)
        || (info->with_counters && !SS_GROW(t->counters, t->room, room, sizeof *t->counters))
        || (info->with_meters && !SS_GROW(t->meters, t->room, room, sizeof *t->meters))
        || (info->with_hits && !SS_GROW(t->hits, t->room, room, sizeof *t->hits)))
        return false;
    t->room = room;
    return true;
}

/* The distance of entries. */
static uint64_t ss_table_step(const struct ss_table_info *info)
{
    return (uint64_t)info->stride * info->members;
}

/* A directly indexed table has a place for every key, and never grows. Tables that are looked up
 * together share memory, which the first of them has. */
static uint64_t ss_direct_bytes(const struct ss_table_info *info)
{
    return info->kind == SS_DIRECT && !info->member ? ss_table_step(info) << info->words : 0;
}

static bool ss_tables_open(struct ss_ctx *c)
{
    uint64_t room = 0;
    for (uint32_t i = 0; i < SS_TABLE_COUNT; i++)
        room += SS_ARENA_ROOM(ss_direct_bytes(&ss_table_infos[i]));
    if (!ss_arena_open(&c->direct, room))
        return false;
    uint8_t *first = NULL;
    for (uint32_t n = 0; n < SS_TABLE_COUNT; n++) {
        const uint32_t i = ss_table_order[n];
        const struct ss_table_info *info = &ss_table_infos[i];
        struct ss_table *t = &c->tables[i];
        if (!(t->default_entry = calloc(1, info->stride)))
            return false;
        if (info->kind != SS_DIRECT)
            continue;
        t->room = UINT64_C(1) << info->words;
        if (!info->member)
            first = ss_arena_take(&c->direct, ss_direct_bytes(info));
        t->entries = first + (uint64_t)info->member * info->stride;
        if ((info->with_counters && !(t->counters = calloc(t->room, sizeof *t->counters)))
            || (info->with_meters && !(t->meters = calloc(t->room, sizeof *t->meters)))
            || (info->with_hits && !(t->hits = calloc(t->room, sizeof *t->hits))))
            return false;
    }
    return true;
}

static void ss_tables_close(struct ss_ctx *c)
{
    for (uint32_t i = 0; i < SS_TABLE_COUNT; i++) {
        struct ss_table *t = &c->tables[i];
        if (ss_table_infos[i].kind != SS_DIRECT)
            free(t->entries);
        free(t->default_entry);
        free(t->counters);
        free(t->meters);
        free(t->hits);
        ss_map_free(&t->map);
        ss_lpm_free(&t->lpm);
        ss_tuples_free(&t->tuples);
    }
    ss_arena_close(&c->direct);
}

/* A rule of a table: `expansions` keys of `words` words, each followed by as many mask words when
 * the table is ternary; for lpm the words of the field, left-aligned, follow the exact ones. */
struct ss_match {
    const uint64_t *words;
    uint32_t expansions, prefix_len;
    int32_t priority;
};

static bool ss_lpm_change(struct ss_table *t, const struct ss_table_info *info,
                          const struct ss_match *m, uint32_t stored)
{
    uint32_t root = ss_map_get(&t->map, m->words, info->words);
    uint32_t before = root = root == SS_NONE ? 0 : root;
    bool ok = ss_lpm_set(&t->lpm, &root, m->words + info->words, m->prefix_len, stored);
    if (root != before && root)
        ok = ss_map_set(&t->map, m->words, info->words, root) && ok;
    else if (!root)
        ss_map_remove(&t->map, m->words, info->words);
    return ok;
}

static bool ss_table_link(struct ss_table *t, const struct ss_table_info *info,
                          const struct ss_match *m, uint32_t handle)
{
    switch (info->kind) {
    case SS_EXACT:
        return ss_map_set(&t->map, m->words, info->words, handle);
    case SS_LPM:
        return ss_lpm_change(t, info, m, handle + 1);
    case SS_TERNARY:
        for (uint32_t i = 0; i < m->expansions; i++) {
            const uint64_t *key = m->words + 2 * i * info->words;
            if (ss_tuples_add(&t->tuples, key, info->words, m->priority, handle))
                continue;
            while (i--) {
                key = m->words + 2 * i * info->words;
                ss_tuples_remove(&t->tuples, key, info->words, handle);
            }
            return false;
        }
        return true;
    default:
        return true;
    }
}

static void ss_table_unlink(struct ss_table *t, const struct ss_table_info *info,
                            const struct ss_match *m, uint32_t handle)
{
    switch (info->kind) {
    case SS_EXACT:
        ss_map_remove(&t->map, m->words, info->words);
        break;
    case SS_LPM:
        ss_lpm_change(t, info, m, 0);
        break;
    case SS_TERNARY:
        for (uint32_t i = 0; i < m->expansions; i++) {
            const uint64_t *key = m->words + 2 * i * info->words;
            ss_tuples_remove(&t->tuples, key, info->words, handle);
        }
        break;
    default:
        break;
    }
}

/* Adds an entry under a free handle. For a directly indexed table the handle is the key. */
int ss_table_add(struct ss_ctx *c, uint32_t table, uint32_t handle, const struct ss_match *match,
                 uint32_t action, const uint64_t *params)
{
    const struct ss_table_info *info = &ss_table_infos[table];
    struct ss_table *t = &c->tables[table];
    int result = -ENOMEM;
    ss_lock(c);
    if (ss_table_reserve(t, info, handle)) {
        uint8_t *entry = t->entries + handle * ss_table_step(info);
        info->encode(entry, action, params);
        if (t->counters)
            t->counters[handle] = (struct ss_counter){0, 0};
        if (t->meters)
            memset(&t->meters[handle], 0, sizeof t->meters[handle]);
        if (t->hits)
            t->hits[handle] = c->now_us;
        if (ss_table_link(t, info, match, handle))
            result = 0;
        else
            memset(entry, 0, info->stride);
    }
    ss_unlock(c);
    return result;
}

void ss_table_modify(struct ss_ctx *c, uint32_t table, uint32_t handle, uint32_t action,
                     const uint64_t *params)
{
    const struct ss_table_info *info = &ss_table_infos[table];
    ss_lock(c);
    info->encode(c->tables[table].entries + handle * ss_table_step(info), action, params);
    ss_unlock(c);
}

void ss_table_delete(struct ss_ctx *c, uint32_t table, uint32_t handle,
                     const struct ss_match *match)
{
    const struct ss_table_info *info = &ss_table_infos[table];
    struct ss_table *t = &c->tables[table];
    ss_lock(c);
    ss_table_unlink(t, info, match, handle);
    memset(t->entries + handle * ss_table_step(info), 0, info->stride);
    ss_unlock(c);
}

void ss_table_default(struct ss_ctx *c, uint32_t table, uint32_t action, const uint64_t *params)
{
    ss_lock(c);
    ss_table_infos[table].encode(c->tables[table].default_entry, action, params);
    ss_unlock(c);
}

/* Counter `index` of an array, or of an entry of a table; NULL when there is none. */
static struct ss_counter *ss_counter_at(struct ss_ctx *c, int direct, uint32_t which,
                                        uint64_t index)
{
    if (!direct)
        return ss_counter_array(&c->state, which) + index;
    struct ss_table *t = &c->tables[which];
    if (index == SS_DEFAULT_ENTRY)
        return &t->default_counter;
    return t->counters && index < t->room ? t->counters + index : NULL;
}

/* Reads when entries were added or hit last, in us; 0 for handles that are not in use yet. */
void ss_hits_read(struct ss_ctx *c, uint32_t table, const uint32_t *handles, uint32_t count,
                  uint64_t *out)
{
    const struct ss_table *t = &c->tables[table];
    ss_lock(c);
    for (uint32_t i = 0; i < count; i++)
        out[i] = t->hits && handles[i] < t->room ? t->hits[handles[i]] : 0;
    ss_unlock(c);
}

/* Reads `count` counters from `index` on into pairs of packets and bytes. */
int ss_counters_read(struct ss_ctx *c, int direct, uint32_t which, uint64_t index, uint64_t count,
                     uint64_t *out)
{
    ss_lock(c);
    const struct ss_counter *counter = ss_counter_at(c, direct, which, index);
    if (counter)
        memcpy(out, counter, count * sizeof *counter);
    ss_unlock(c);
    return counter ? 0 : -ENOENT;
}

int ss_counter_write(struct ss_ctx *c, int direct, uint32_t which, uint64_t index, uint64_t packets,
                     uint64_t bytes)
{
    ss_lock(c);
    struct ss_counter *counter = ss_counter_at(c, direct, which, index);
    if (counter)
        *counter = (struct ss_counter){packets, bytes};
    ss_unlock(c);
    return counter ? 0 : -ENOENT;
}

/* Reads cells of a register array, in the array's own cell type. */
void ss_registers_read(struct ss_ctx *c, uint32_t which, uint64_t start, uint64_t count,
                       uint8_t *cells)
{
    uint64_t size, step;
    ss_lock(c);
    const uint8_t *array = ss_register_array(&c->state, which, &size, &step);
    for (uint64_t i = 0; i < count; i++)
        memcpy(cells + i * size, array + (start + i) * step, size);
    ss_unlock(c);
}

void ss_registers_write(struct ss_ctx *c, uint32_t which, uint64_t start, uint64_t count,
                        const uint8_t *cells)
{
    uint64_t size, step;
    ss_lock(c);
    uint8_t *array = ss_register_array(&c->state, which, &size, &step);
    for (uint64_t i = 0; i < count; i++)
        memcpy(array + (start + i) * step, cells + i * size, size);
    ss_unlock(c);
}

#endif
