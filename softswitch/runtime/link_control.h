/* The control of links. All take the lock, but for open and close. */
#ifndef SS_LINK_CONTROL_H
#define SS_LINK_CONTROL_H

#include "faults.h"

static bool ss_links_open(struct ss_ctx *c)
{
    struct ss_links *links = calloc(1, sizeof *links);
    c->io->links = links;
    if (!links)
        return false;
    links->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    return links->timer >= 0 && !epoll_ctl(c->io->epoll, EPOLL_CTL_ADD, links->timer, &event);
}

/* Throws away what waits; returns how many packets. */
static uint32_t ss_link_clear(struct ss_links *links, struct ss_link *l)
{
    uint32_t count = l->waiting;
    for (struct ss_waiting *w; (w = ss_wait_pop(&l->held, &l->held_tail));)
        ss_wait_free(links, l, w);
    for (struct ss_waiting *w; (w = ss_wait_pop(&l->queue, &l->queue_tail));)
        ss_wait_free(links, l, w);
    ss_link_schedule(links, l);
    return count;
}

static void ss_links_close(struct ss_ctx *c)
{
    struct ss_links *links = c->io->links;
    if (!links)
        return;
    for (int i = 0; i < 2 * SS_MAX_PORTS; i++) {
        struct ss_link *l = links->at[i % 2][i / 2];
        if (l)
            ss_link_clear(links, l);
        free(l);
    }
    if (links->timer >= 0)
        close(links->timer);
    free(links);
}

static struct ss_link *ss_link_make(struct ss_ctx *c, uint32_t port, enum ss_direction d)
{
    struct ss_link *l = c->io->links->at[d][port];
    if (l || !(l = calloc(1, sizeof *l)))
        return l;
    l->port = port;
    l->direction = d;
    l->held_tail = &l->held;
    l->queue_tail = &l->queue;
    c->io->links->at[d][port] = l;
    c->io->hooked = true;
    return l;
}

static void ss_link_cut(struct ss_ctx *c, struct ss_link *l, bool down)
{
    l->down = down;
    if (!down)
        return;
    for (const struct ss_waiting *w = l->held; w; w = w->next)
        ss_record(c, l->direction, l->port, w->data, w->len, SS_fault_cut);
    for (const struct ss_waiting *w = l->queue; w; w = w->next)
        ss_record(c, l->direction, l->port, w->data, w->len, SS_fault_cut);
    uint32_t lost = ss_link_clear(c->io->links, l);
    l->stats.cut += lost;
    c->drops[SS_fault_cut] += lost;
}

/* Lets what is held back go on at once: the numbers that it waits for will not come. */
static void ss_link_renumber(struct ss_links *links, struct ss_link *l)
{
    for (struct ss_waiting *w = l->held; w; w = w->next) {
        w->until = UINT64_MAX;
        w->due_ns = ss_links_now(links);
    }
    l->offered = 0;
    ss_link_schedule(links, l);
}

/* Sets what a link does, from its packet 0 on. What waits keeps its time; what is held back goes
 * on. 0 or -errno. */
int ss_link_set(struct ss_ctx *c, uint32_t port, uint32_t direction,
                const struct ss_link_config *config, int down)
{
    if (port >= SS_MAX_PORTS || direction > SS_TX)
        return -EINVAL;
    ss_lock(c);
    struct ss_link *l = ss_link_make(c, port, direction);
    if (l) {
        ss_link_renumber(c->io->links, l);
        l->config = *config;
        l->key = ss_mix64(ss_mix64(config->seed) + (2 * port + direction + 1) * SS_GOLDEN64);
        memset(&l->stats, 0, sizeof l->stats);
        ss_link_cut(c, l, down);
        ss_links_poll(c);
        ss_flush_ports(c);
    }
    ss_unlock(c);
    return l ? 0 : -ENOMEM;
}

/* Cuts a link (1) or mends it (0); its faults and numbers go on. */
int ss_link_down(struct ss_ctx *c, uint32_t port, uint32_t direction, int down)
{
    if (port >= SS_MAX_PORTS || direction > SS_TX)
        return -EINVAL;
    ss_lock(c);
    struct ss_link *l = ss_link_make(c, port, direction);
    if (l)
        ss_link_cut(c, l, down);
    ss_unlock(c);
    return l ? 0 : -ENOMEM;
}

/* Its counters, and behind them how many packets wait on it. */
int ss_link_stats(struct ss_ctx *c, uint32_t port, uint32_t direction, uint64_t *out)
{
    if (port >= SS_MAX_PORTS || direction > SS_TX)
        return -EINVAL;
    ss_lock(c);
    const struct ss_link *l = c->io->links->at[direction][port];
    if (l) {
        memcpy(out, &l->stats, sizeof l->stats);
        out[sizeof l->stats / sizeof *out] = l->waiting;
    }
    ss_unlock(c);
    return l ? 0 : -ENOENT;
}

/* Lets `ns` pass on the clock of links while no thread runs. *out: what leaves meanwhile, as
 * ss_inject returns it; returns its length, or -EBUSY while a thread runs. */
int64_t ss_advance(struct ss_ctx *c, uint64_t ns, const uint8_t **out)
{
    ss_lock(c);
    struct ss_links *links = c->io->links;
    int64_t result = -EBUSY;
    if (!links->running) {
        uint64_t end = links->base_ns + ns;
        c->capture = true;
        c->out_len = 0;
        while (links->count && links->heap[1]->next_ns <= end) {
            struct ss_link *l = links->heap[1];
            links->base_ns = l->next_ns > links->base_ns ? l->next_ns : links->base_ns;
            ss_link_expire(c, l, links->base_ns);
        }
        links->base_ns = end;
        c->capture = false;
        *out = c->out;
        result = (int64_t)c->out_len;
    }
    ss_unlock(c);
    return result;
}

#endif
