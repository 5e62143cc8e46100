/* Counters and meters.
 *
 * A meter has two token buckets. Tokens are counted in millionths and rates are tokens per second,
 * so that a microsecond adds exactly `rate` millionths and nothing is ever rounded. */
#ifndef SS_METERS_H
#define SS_METERS_H

#include "bits.h"

enum { SS_GREEN, SS_YELLOW, SS_RED, SS_NUM_COLORS };
enum { SS_TOKEN = 1000000 };

struct ss_counter {
    uint64_t packets, bytes;
};

struct ss_meter {
    u128 committed, peak; /* tokens; `peak` is the excess bucket of a single rate */
    uint64_t cir, cburst, pir, pburst;
    uint64_t last_us;
    struct ss_counter colors[SS_NUM_COLORS];
    bool set;    /* without a configuration everything is green */
    bool single; /* single rate (RFC 2697), not two rates (RFC 2698); pburst is the excess burst */
};

static inline u128 ss_bucket_fill(u128 tokens, uint64_t rate, uint64_t burst, uint64_t us,
                                  u128 *overflow)
{
    u128 full = (u128)burst * SS_TOKEN, sum = tokens + (u128)rate * us;
    *overflow = sum > full ? sum - full : 0;
    return sum > full ? full : sum;
}

/* RFC 2698, color-blind. */
static inline uint32_t ss_meter_two_rates(struct ss_meter *m, uint64_t us, u128 need)
{
    u128 overflow;
    m->committed = ss_bucket_fill(m->committed, m->cir, m->cburst, us, &overflow);
    m->peak = ss_bucket_fill(m->peak, m->pir, m->pburst, us, &overflow);
    if (m->peak < need)
        return SS_RED;
    m->peak -= need;
    if (m->committed < need)
        return SS_YELLOW;
    m->committed -= need;
    return SS_GREEN;
}

/* RFC 2697, color-blind: what the committed bucket cannot hold goes to the excess bucket. */
static inline uint32_t ss_meter_single_rate(struct ss_meter *m, uint64_t us, u128 need)
{
    u128 overflow, full = (u128)m->pburst * SS_TOKEN;
    m->committed = ss_bucket_fill(m->committed, m->cir, m->cburst, us, &overflow);
    m->peak = m->peak + overflow > full ? full : m->peak + overflow;
    if (m->committed >= need) {
        m->committed -= need;
        return SS_GREEN;
    }
    if (m->peak < need)
        return SS_RED;
    m->peak -= need;
    return SS_YELLOW;
}

/* The color of a packet of `length` bytes; `amount` is what it takes: its length, or 1. */
static uint32_t ss_meter_run(struct ss_meter *m, uint64_t now_us, uint64_t amount, uint32_t length)
{
    uint32_t color = SS_GREEN;
    if (m->set) {
        uint64_t us = now_us > m->last_us ? now_us - m->last_us : 0;
        u128 need = (u128)amount * SS_TOKEN;
        m->last_us = now_us;
        color = m->single ? ss_meter_single_rate(m, us, need) : ss_meter_two_rates(m, us, need);
    }
    m->colors[color].packets++;
    m->colors[color].bytes += length;
    return color;
}

#endif
