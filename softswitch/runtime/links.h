/* Links of ports: what they are told, their clock, and the packets that wait on them.
 *
 * Packets that wait are copied out of the buffer pool. A link keeps the order of what it has not
 * held back, so a queue per link and a heap of links by their next event are enough. */
#ifndef SS_LINKS_H
#define SS_LINKS_H

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include "ports.h"

enum {
    SS_LINK_PACKETS = 1 << 16, /* that wait on one link */
    SS_LINKS_BYTES = 64 << 20, /* of all packets that wait */
};

/* As Python sends it (softswitch/links.py); probabilities are in units of 2^-53. */
struct ss_link_config {
    uint64_t loss, duplicate, reorder, depth, hold_ns, delay_ns, jitter_ns, spike, spike_ns,
        rate_bps, queue_bytes, seed;
};

/* Packets. duplicated: second copies; reordered: held back. */
struct ss_link_stats {
    uint64_t offered, passed, lost, duplicated, reordered, spiked, queue_full, overflow, cut;
};

struct ss_waiting {
    struct ss_waiting *next;
    uint64_t due_ns, number, until; /* until: held back until packet `until` was offered */
    uint32_t len;
    bool twice;
    uint8_t data[];
};

struct ss_link {
    struct ss_link_config config;
    struct ss_link_stats stats;
    enum ss_direction direction;
    uint32_t port, waiting;
    bool down;
    uint64_t key, offered; /* offered: number of the next packet */
    uint64_t line_ns, line_rest, last_ns; /* line free from; fraction of a ns; due of the last */
    struct ss_waiting *held, **held_tail, *queue, **queue_tail;
    uint64_t next_ns;
    uint32_t place; /* in the heap, from 1; 0: not in it */
};

struct ss_links {
    struct ss_link *at[2][SS_MAX_PORTS];
    struct ss_link *heap[2 * SS_MAX_PORTS + 1]; /* from 1, earliest event first */
    uint32_t count;
    uint64_t bytes;
    /* The clock of links stands still while no thread runs, and then moves by ss_advance. */
    uint64_t base_ns, started_ns, armed_ns;
    bool running;
    int timer;
};

static uint64_t ss_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ss_links_now(const struct ss_links *links)
{
    return links->base_ns + (links->running ? ss_clock_ns() - links->started_ns : 0);
}

/* The clock of links follows the real one from now on, or stands still. */
static void ss_links_run(struct ss_ctx *c, bool running)
{
    struct ss_links *links = c->io->links;
    links->base_ns = ss_links_now(links);
    links->started_ns = ss_clock_ns();
    links->running = running;
    links->armed_ns = 0;
    timerfd_settime(links->timer, 0, &(struct itimerspec){0}, NULL);
}
/* Heap of links by next_ns */

static void ss_heap_put(struct ss_links *links, uint32_t place, struct ss_link *l)
{
    links->heap[place] = l;
    l->place = place;
}

static void ss_heap_up(struct ss_links *links, struct ss_link *l)
{
    uint32_t at = l->place;
    for (; at > 1 && links->heap[at / 2]->next_ns > l->next_ns; at /= 2)
        ss_heap_put(links, at, links->heap[at / 2]);
    ss_heap_put(links, at, l);
}

static void ss_heap_down(struct ss_links *links, struct ss_link *l)
{
    uint32_t at = l->place;
    for (uint32_t child; (child = 2 * at) <= links->count; at = child) {
        if (child < links->count && links->heap[child + 1]->next_ns < links->heap[child]->next_ns)
            child++;
        if (links->heap[child]->next_ns >= l->next_ns)
            break;
        ss_heap_put(links, at, links->heap[child]);
    }
    ss_heap_put(links, at, l);
}

static void ss_heap_remove(struct ss_links *links, struct ss_link *l)
{
    struct ss_link *last = links->heap[links->count--];
    uint32_t place = l->place;
    l->place = 0;
    if (last == l)
        return;
    ss_heap_put(links, place, last);
    ss_heap_up(links, last);
    ss_heap_down(links, last);
}

/* Puts a link where its next event belongs. */
static void ss_link_schedule(struct ss_links *links, struct ss_link *l)
{
    if (!l->held && !l->queue) {
        if (l->place)
            ss_heap_remove(links, l);
        return;
    }
    uint64_t queued = l->queue ? l->queue->due_ns : UINT64_MAX;
    uint64_t held = l->held ? l->held->due_ns : UINT64_MAX;
    l->next_ns = queued < held ? queued : held;
    if (!l->place)
        ss_heap_put(links, ++links->count, l);
    ss_heap_up(links, l);
    ss_heap_down(links, l);
}

/* Packets that wait */

static struct ss_waiting *ss_wait_new(struct ss_links *links, struct ss_link *l,
                                      const uint8_t *data, uint32_t len)
{
    struct ss_waiting *w = NULL;
    if (l->waiting < SS_LINK_PACKETS && links->bytes + len <= SS_LINKS_BYTES)
        w = malloc(sizeof *w + len);
    if (!w)
        return NULL;
    memcpy(w->data, data, len);
    w->len = len;
    w->next = NULL;
    l->waiting++;
    links->bytes += len;
    return w;
}

static void ss_wait_free(struct ss_links *links, struct ss_link *l, struct ss_waiting *w)
{
    l->waiting--;
    links->bytes -= w->len;
    free(w);
}

static struct ss_waiting *ss_wait_pop(struct ss_waiting **head, struct ss_waiting ***tail)
{
    struct ss_waiting *w = *head;
    if (w && !(*head = w->next))
        *tail = head;
    return w;
}

#endif
