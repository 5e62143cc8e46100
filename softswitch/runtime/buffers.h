/* Packet buffers: a pool that grows on demand up to SS_MAX_BUFFERS. */
#ifndef SS_BUFFERS_H
#define SS_BUFFERS_H

#include "core.h"

static void ss_flush_ports(struct ss_ctx *c);

static inline void ss_buf_free(struct ss_ctx *c, struct ss_buf *b)
{
    b->next = c->free_bufs;
    c->free_bufs = b;
}

/* An empty buffer whose start leaves room for headers, or NULL. */
static struct ss_buf *ss_buf_new(struct ss_ctx *c)
{
    if (!c->free_bufs && c->buffers < SS_MAX_BUFFERS) {
        struct ss_buf *b = calloc(1, sizeof *b);
        if (b) {
            c->buffers++;
            ss_buf_free(c, b);
        }
    }
    if (!c->free_bufs)
        ss_flush_ports(c); /* gives buffers back */
    struct ss_buf *b = c->free_bufs;
    if (!b)
        return NULL;
    c->free_bufs = b->next;
    b->next = NULL;
    b->start = b->mem + SS_HEADROOM;
    b->len = 0;
    b->list = 0;
    return b;
}

/* A new buffer with the bytes of another one, or NULL (counted). */
static struct ss_buf *ss_buf_copy(struct ss_ctx *c, const uint8_t *data, uint32_t len)
{
    struct ss_buf *b = ss_buf_new(c);
    if (!b) {
        ss_drop(c, SS_no_buffer);
        return NULL;
    }
    memcpy(b->start, data, len);
    b->len = len;
    return b;
}

/* A new packet that comes from `port`, or NULL (counted). `len` is at most SS_MAX_PACKET. */
static struct ss_buf *ss_buf_packet(struct ss_ctx *c, uint32_t port, const uint8_t *data,
                                    uint32_t len)
{
    struct ss_buf *b = ss_buf_copy(c, data, len);
    if (b) {
        b->ingress_length = len;
        b->port = port;
        b->instance = SS_NORMAL;
    }
    return b;
}

/* Makes `room` bytes (at most SS_HEADROOM) before the packet. */
static inline bool ss_buf_reserve(struct ss_buf *b, uint32_t room)
{
    if (__builtin_expect((uint64_t)room + b->len > SS_MAX_PACKET, 0))
        return false;
    if (__builtin_expect((size_t)(b->start - b->mem) < room, 0)) {
        memmove(b->mem + SS_HEADROOM, b->start, b->len);
        b->start = b->mem + SS_HEADROOM;
    }
    return true;
}

static inline void ss_queue_push(struct ss_ctx *c, struct ss_buf *b)
{
    b->next = NULL;
    *c->queue_tail = b;
    c->queue_tail = &b->next;
    c->queued++;
}

static inline struct ss_buf *ss_queue_pop(struct ss_ctx *c)
{
    struct ss_buf *b = c->queue_head;
    if (!b)
        return NULL;
    if (!(c->queue_head = b->next))
        c->queue_tail = &c->queue_head;
    c->queued--;
    return b;
}

#endif
