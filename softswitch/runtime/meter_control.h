/* Meters as the control plane sees them. */
#ifndef SS_METER_CONTROL_H
#define SS_METER_CONTROL_H

#include "tables.h"

/* Meter `index` of an array, or of an entry of a table; NULL when there is none. */
static struct ss_meter *ss_meter_at(struct ss_ctx *c, int direct, uint32_t which, uint64_t index)
{
    if (!direct)
        return ss_meter_array(&c->state, which) + index;
    struct ss_table *t = &c->tables[which];
    if (index == SS_DEFAULT_ENTRY)
        return &t->default_meter;
    return t->meters && index < t->room ? t->meters + index : NULL;
}

/* Configures `count` meters from `index` on: config is set, single, cir, cburst, pir, pburst. Their
 * buckets are full then; counts of colors stay. */
int ss_meters_set(struct ss_ctx *c, int direct, uint32_t which, uint64_t index, uint64_t count,
                  const uint64_t *config)
{
    ss_lock(c);
    struct ss_meter *m = ss_meter_at(c, direct, which, index);
    for (uint64_t i = 0; m && i < count; i++, m++) {
        m->set = config[0] != 0;
        m->single = config[1] != 0;
        m->cir = config[2];
        m->cburst = config[3];
        m->pir = config[4];
        m->pburst = config[5];
        m->committed = (u128)m->cburst * SS_TOKEN;
        m->peak = (u128)m->pburst * SS_TOKEN;
        m->last_us = c->now_us;
    }
    ss_unlock(c);
    return m ? 0 : -ENOENT;
}

/* Sets the counts of colors to zero. */
int ss_meters_clear(struct ss_ctx *c, int direct, uint32_t which, uint64_t index, uint64_t count)
{
    ss_lock(c);
    struct ss_meter *m = ss_meter_at(c, direct, which, index);
    for (uint64_t i = 0; m && i < count; i++, m++)
        memset(m->colors, 0, sizeof m->colors);
    ss_unlock(c);
    return m ? 0 : -ENOENT;
}

/* Reads meters into 12 words each: the configuration, then packets and bytes of each color. */
int ss_meters_read(struct ss_ctx *c, int direct, uint32_t which, uint64_t index, uint64_t count,
                   uint64_t *out)
{
    ss_lock(c);
    const struct ss_meter *m = ss_meter_at(c, direct, which, index);
    for (uint64_t i = 0; m && i < count; i++, m++) {
        const uint64_t config[] = {m->set, m->single, m->cir, m->cburst, m->pir, m->pburst};
        memcpy(out, config, sizeof config);
        memcpy(out + 6, m->colors, sizeof m->colors);
        out += 12;
    }
    ss_unlock(c);
    return m ? 0 : -ENOENT;
}

#endif
