/* What links do to packets: seeded loss, duplication, reordering, rate and delay.
 *
 * The fate of a packet is a function of the link's key and the packet's number k: each decision
 * draws word (k, purpose) of a counter-based generator (splitmix64's output function), so that
 * neither time nor what happened to other packets has a part in it.
 *
 *   offer(packet k):   down, loss: drop.  reorder: hold until packet k + d was offered, or for
 *                      hold_ns.  else enter (twice if duplicated)
 *   enter:             queue full: drop.  due = when the line at rate_bps has sent it, plus delay,
 *                      never before the packet ahead
 *   due:               rx: through the pipeline.  tx: out of the port */
#ifndef SS_FAULTS_H
#define SS_FAULTS_H

#include "capture.h"
#include "links.h"

enum { SS_LINKS_TURN = 1024 }; /* packets let go per turn of the loop */

enum ss_purpose { SS_DRAW_LOSS, SS_DRAW_DUP, SS_DRAW_REORDER, SS_DRAW_DEPTH, SS_DRAW_JITTER,
                  SS_DRAW_SPIKE, SS_DRAWS = 8 };

/* Word (k, purpose) of a link's random numbers. */
static uint64_t ss_link_draw(const struct ss_link *l, uint64_t k, enum ss_purpose purpose)
{
    return ss_mix64(l->key + (k * SS_DRAWS + purpose) * SS_GOLDEN64);
}

static bool ss_link_chance(const struct ss_link *l, uint64_t k, enum ss_purpose purpose,
                           uint64_t probability)
{
    return probability && ss_link_draw(l, k, purpose) >> 11 < probability;
}

/* A number below `bound`. */
static uint64_t ss_link_below(const struct ss_link *l, uint64_t k, enum ss_purpose purpose,
                              uint64_t bound)
{
    return (uint64_t)((u128)ss_link_draw(l, k, purpose) * bound >> 64);
}
static void ss_link_lose(struct ss_ctx *c, struct ss_link *l, const uint8_t *data, uint32_t len,
                         uint64_t *counter, int reason)
{
    ++*counter;
    ss_drop(c, reason);
    ss_record(c, l->direction, l->port, data, len, reason);
}

/* The packet has passed the link. */
static void ss_link_deliver(struct ss_ctx *c, struct ss_link *l, const uint8_t *data, uint32_t len)
{
    struct ss_buf *b = ss_buf_packet(c, l->port, data, len);
    if (!b)
        return;
    l->stats.passed++;
    ss_record(c, l->direction, l->port, data, len, -1);
    if (l->direction == SS_TX)
        ss_leave(c, b, l->port);
    else if (c->capture)
        ss_process_fully(c, b);
    else
        ss_process(c, b);
}

static uint64_t ss_link_delay(struct ss_link *l, uint64_t k)
{
    const struct ss_link_config *f = &l->config;
    uint64_t delay = f->delay_ns;
    if (f->jitter_ns) {
        delay += ss_link_below(l, k, SS_DRAW_JITTER, 2 * f->jitter_ns + 1);
        delay = delay > f->jitter_ns ? delay - f->jitter_ns : 0;
    }
    if (ss_link_chance(l, k, SS_DRAW_SPIKE, f->spike)) {
        delay += f->spike_ns;
        l->stats.spiked++;
    }
    return delay;
}

/* Sends `len` bytes over the line: false if the queue has no room, else *ns is when it is done. */
static bool ss_link_line(struct ss_link *l, uint32_t len, uint64_t *ns)
{
    uint64_t rate = l->config.rate_bps;
    if (!rate)
        return true;
    if (l->line_ns <= *ns) {
        l->line_ns = *ns;
        l->line_rest = 0;
    } else {
        u128 backlog = (u128)(l->line_ns - *ns) * rate / 8000000000u;
        if (backlog + len > l->config.queue_bytes)
            return false;
    }
    l->line_rest += len * 8000000000u;
    l->line_ns += l->line_rest / rate;
    l->line_rest %= rate;
    *ns = l->line_ns;
    return true;
}

/* Lets packet k onto the line. Leaves the bytes to the caller. */
static void ss_link_enter(struct ss_ctx *c, struct ss_link *l, uint64_t k, const uint8_t *data,
                          uint32_t len)
{
    struct ss_links *links = c->io->links;
    uint64_t now = ss_links_now(links), due = now;
    if (!ss_link_line(l, len, &due)) {
        ss_link_lose(c, l, data, len, &l->stats.queue_full, SS_fault_queue_full);
        return;
    }
    due += ss_link_delay(l, k);
    l->last_ns = due = due > l->last_ns ? due : l->last_ns;
    if (due <= now && !l->queue) {
        ss_link_deliver(c, l, data, len);
        return;
    }
    struct ss_waiting *w = ss_wait_new(links, l, data, len);
    if (!w) {
        ss_link_lose(c, l, data, len, &l->stats.overflow, SS_fault_overflow);
        return;
    }
    w->due_ns = due;
    *l->queue_tail = w;
    l->queue_tail = &w->next;
}

static void ss_link_hold(struct ss_ctx *c, struct ss_link *l, uint64_t k, const struct ss_buf *b,
                         bool twice)
{
    struct ss_waiting *w = ss_wait_new(c->io->links, l, b->start, b->len);
    if (!w) {
        ss_link_lose(c, l, b->start, b->len, &l->stats.overflow, SS_fault_overflow);
        return;
    }
    w->number = k;
    w->until = k + 1 + ss_link_below(l, k, SS_DRAW_DEPTH, l->config.depth);
    w->due_ns = ss_links_now(c->io->links) + l->config.hold_ns;
    w->twice = twice;
    *l->held_tail = w;
    l->held_tail = &w->next;
    l->stats.reordered++;
}

/* Lets go what was held back until packet k or until now, in the order of arrival. */
static void ss_link_unhold(struct ss_ctx *c, struct ss_link *l, uint64_t k, uint64_t now)
{
    struct ss_waiting **at = &l->held;
    while (*at) {
        struct ss_waiting *w = *at;
        if (w->until > k && w->due_ns > now) {
            at = &w->next;
            continue;
        }
        if (!(*at = w->next))
            l->held_tail = at;
        for (int copies = w->twice ? 2 : 1; copies--;)
            ss_link_enter(c, l, w->number, w->data, w->len);
        ss_wait_free(c->io->links, l, w);
    }
}

/* Decides what becomes of a packet. Takes the buffer. */
static void ss_link_offer(struct ss_ctx *c, struct ss_link *l, struct ss_buf *b)
{
    const struct ss_link_config *f = &l->config;
    uint64_t k = l->offered++;
    l->stats.offered++;
    if (l->down) {
        ss_link_lose(c, l, b->start, b->len, &l->stats.cut, SS_fault_cut);
    } else if (ss_link_chance(l, k, SS_DRAW_LOSS, f->loss)) {
        ss_link_lose(c, l, b->start, b->len, &l->stats.lost, SS_fault_loss);
    } else {
        bool twice = ss_link_chance(l, k, SS_DRAW_DUP, f->duplicate);
        l->stats.duplicated += twice;
        if (ss_link_chance(l, k, SS_DRAW_REORDER, f->reorder)) {
            ss_link_hold(c, l, k, b, twice);
        } else {
            for (int copies = twice ? 2 : 1; copies--;)
                ss_link_enter(c, l, k, b->start, b->len);
        }
    }
    ss_buf_free(c, b);
    if (l->held)
        ss_link_unhold(c, l, k, 0);
    ss_link_schedule(c->io->links, l);
}

/* Lets go what is due at the link's next event. */
static void ss_link_expire(struct ss_ctx *c, struct ss_link *l, uint64_t now)
{
    struct ss_links *links = c->io->links;
    if (l->held && l->held->due_ns <= now)
        ss_link_unhold(c, l, 0, now);
    if (l->queue && l->queue->due_ns <= now) {
        struct ss_waiting *w = ss_wait_pop(&l->queue, &l->queue_tail);
        ss_link_deliver(c, l, w->data, w->len);
        ss_wait_free(links, l, w);
    }
    ss_link_schedule(links, l);
}

/* Sets the timer to the next event. */
static void ss_links_arm(struct ss_links *links)
{
    uint64_t at = links->count ? links->heap[1]->next_ns - links->base_ns + links->started_ns : 0;
    if (at == links->armed_ns && !(at && at <= ss_clock_ns()))
        return;
    struct itimerspec spec = {.it_value = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)}};
    timerfd_settime(links->timer, TFD_TIMER_ABSTIME, &spec, NULL);
    links->armed_ns = at;
}

/* Lets go what is due while the thread runs: in each turn of its loop, and when others have put
 * packets on a link. */
static void ss_links_poll(struct ss_ctx *c)
{
    struct ss_links *links = c->io->links;
    if (!links->running)
        return;
    uint64_t now = ss_links_now(links);
    for (int n = 0; n < SS_LINKS_TURN && links->count && links->heap[1]->next_ns <= now; n++)
        ss_link_expire(c, links->heap[1], now);
    ss_links_arm(links);
}

static struct ss_link *ss_link_find(const struct ss_ctx *c, enum ss_direction d, uint32_t port)
{
    return port < SS_MAX_PORTS ? c->io->links->at[d][port] : NULL;
}

/* Where a packet goes that a port has received. Takes the buffer. */
static void ss_arrive_hooked(struct ss_ctx *c, struct ss_buf *b)
{
    struct ss_link *l = ss_link_find(c, SS_RX, b->port);
    if (l) {
        ss_link_offer(c, l, b);
        return;
    }
    ss_record(c, SS_RX, b->port, b->start, b->len, -1);
    if (c->capture)
        ss_process_fully(c, b);
    else
        ss_process(c, b);
}

static void ss_send_hooked(struct ss_ctx *c, struct ss_buf *b, uint32_t port)
{
    struct ss_link *l = c->discard ? NULL : ss_link_find(c, SS_TX, port);
    if (l) {
        ss_link_offer(c, l, b);
        return;
    }
    if (!c->discard && (c->capture || ss_has_port(c, port)))
        ss_record(c, SS_TX, port, b->start, b->len, -1);
    ss_leave(c, b, port);
}

#endif
