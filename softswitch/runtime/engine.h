/* A packet's way through the switch: parser, ingress, replication, egress, deparser.
 *
 * Generated code provides ss_parse, ss_ingress, ss_egress, ss_update_checksums,
 * ss_before_deparser, ss_emit_size, ss_emit, ss_save_list, ss_load_list, ss_keep_views, ss_hint and
 * the accessors of the standard metadata. */
#ifndef SS_ENGINE_H
#define SS_ENGINE_H

#include "buffers.h"

static void ss_send(struct ss_ctx *c, struct ss_buf *b, uint32_t port);

/* Zeroes in steps that the compiler turns into vector stores: a constant memset of this size would
 * become `rep stos`, which is several times slower. */
static inline void ss_zero(void *to, size_t size)
{
    uint8_t *d = to;
    size_t i = 0;
#pragma GCC unroll 16
    for (; i + 64 <= size; i += 64)
        memset(d + i, 0, 64);
    memset(d + i, 0, size - i);
}

static inline void ss_begin(struct ss_phv *p, const struct ss_buf *b)
{
    ss_zero(p, offsetof(struct ss_phv, h));
    p->x.data = b->start;
    p->x.len = b->len;
    p->x.packet_length = b->len;
    p->x.ingress_length = b->ingress_length;
}

static inline void ss_clear_requests(struct ss_pass *x)
{
    x->clone = x->clone_list = x->resubmit = x->recirculate = x->truncate = 0;
    x->exit = false;
}

/* Resets metadata to zero except for the fields of a list, which come from `from`. */
static void ss_preserve(struct ss_phv *to, const struct ss_phv *from, uint32_t list)
{
    struct ss_saved saved;
    ss_save_list(&saved, from, list);
    memset(&to->m, 0, sizeof to->m);
    ss_load_list(to, &saved, list);
}

static void ss_requeue(struct ss_ctx *c, const struct ss_phv *p, struct ss_buf *b, uint32_t list,
                       uint32_t instance)
{
    if (__builtin_expect(c->queued >= SS_MAX_QUEUED, 0)) {
        ss_drop(c, SS_loop_limit);
        ss_buf_free(c, b);
        return;
    }
    ss_save_list(&b->saved, p, list);
    b->list = list;
    b->instance = instance;
    ss_queue_push(c, b);
}

/* Copies the packet as it is after egress, to be cloned once the original is out. */
static void ss_clone_egress(struct ss_ctx *c, const struct ss_phv *p, const struct ss_buf *b)
{
    uint32_t session = p->x.clone & (SS_MAX_SESSIONS - 1);
    if (!c->sessions[session]) {
        ss_drop(c, SS_no_session);
        return;
    }
    struct ss_job *job = c->free_jobs;
    if (job)
        c->free_jobs = job->next;
    else
        job = malloc(sizeof *job);
    struct ss_buf *copy = job ? ss_buf_copy(c, b->start, b->len) : NULL;
    if (!copy) {
        if (job) {
            job->next = c->free_jobs;
            c->free_jobs = job;
        }
        return;
    }
    job->phv = *p;
    ss_keep_views(&job->phv, &job->kept);
    ss_preserve(&job->phv, p, p->x.clone_list);
    ss_set_instance_type(&job->phv, SS_EGRESS_CLONE);
    ss_clear_requests(&job->phv.x);
    job->buf = copy;
    job->session = session;
    job->next = NULL;
    *c->jobs_tail = job;
    c->jobs_tail = &job->next;
}

/* Egress and what follows it. Takes the buffer, whose bytes are the payload. */
static void ss_run_egress(struct ss_ctx *c, struct ss_phv *p, struct ss_buf *b, uint32_t port)
{
    ss_set_egress_port(p, port);
    ss_set_egress_spec(p, SS_DROP_PORT + 1);
    ss_set_packet_length(p, p->x.packet_length);
    ss_set_egress_global_timestamp(p, c->now_us);
    ss_set_enq_timestamp(p, c->now_us);
    p->x.payload = b->start;
    p->x.payload_len = b->len;
    ss_egress(c, p);
    if (__builtin_expect(p->x.clone, 0)) {
        ss_clone_egress(c, p, b);
        p->x.clone = 0;
    }
    if (ss_get_egress_spec(p) == SS_DROP_PORT || p->x.failed) {
        ss_drop(c, p->x.failed ? SS_assertion : SS_egress_drop);
        ss_buf_free(c, b);
        return;
    }
    ss_update_checksums(p);
    ss_before_deparser(c, p);
    if (__builtin_expect(p->x.failed, 0)) {
        ss_drop(c, SS_assertion);
        ss_buf_free(c, b);
        return;
    }
    uint32_t size = ss_emit_size(p);
    if (!ss_buf_reserve(b, size)) {
        ss_drop(c, SS_oversize);
        ss_buf_free(c, b);
        return;
    }
    b->start -= size;
    b->len += size;
    ss_emit(p, b->start, size);
    if (__builtin_expect(p->x.recirculate, 0)) {
        b->ingress_length = b->len;
        ss_requeue(c, p, b, p->x.recirculate, SS_RECIRC);
        return;
    }
    if (__builtin_expect(p->x.truncate && p->x.truncate - 1 < b->len, 0))
        b->len = p->x.truncate - 1;
    ss_send(c, b, port);
}

/* Sends a copy to each replica. `own`: the buffer is given away, else it stays with the caller. */
static void ss_replicate(struct ss_ctx *c, struct ss_phv *p, struct ss_buf *b,
                         const struct ss_replicas *to, uint32_t truncate, bool own)
{
    ss_clear_requests(&p->x);
    p->x.truncate = truncate ? truncate + 1 : 0;
    for (uint32_t i = 0; i < to->count; i++) {
        bool last = own && i + 1 == to->count;
        struct ss_buf *copy = last ? b : ss_buf_copy(c, b->start, b->len);
        if (!copy)
            continue;
        struct ss_phv *q = last ? p : &c->copy_phv;
        if (!last)
            *q = *p;
        ss_set_egress_rid(q, to->to[i].rid);
        ss_run_egress(c, q, copy, to->to[i].port);
    }
    if (own && !to->count)
        ss_buf_free(c, b);
}

/* Parses the packet again, as it came, and sends it to a clone session. */
static void ss_clone_ingress(struct ss_ctx *c, struct ss_phv *p, struct ss_buf *b)
{
    const struct ss_session *session = c->sessions[p->x.clone & (SS_MAX_SESSIONS - 1)];
    if (!session) {
        ss_drop(c, SS_no_session);
        return;
    }
    struct ss_phv *q = &c->clone_phv;
    ss_begin(q, b);
    ss_set_ingress_port(q, b->port);
    ss_parse(c, q);
    ss_preserve(q, p, p->x.clone_list);
    ss_set_instance_type(q, SS_INGRESS_CLONE);
    b->start += q->x.parsed;
    b->len -= q->x.parsed;
    ss_replicate(c, q, b, &session->replicas, session->truncate, false);
    b->start -= q->x.parsed;
    b->len += q->x.parsed;
}

static void ss_run_jobs(struct ss_ctx *c)
{
    for (unsigned n = 0; c->jobs_head; n++) {
        struct ss_job *job = c->jobs_head;
        if (!(c->jobs_head = job->next))
            c->jobs_tail = &c->jobs_head;
        const struct ss_session *session = c->sessions[job->session];
        if (session && n < 4096) {
            ss_replicate(c, &job->phv, job->buf, &session->replicas, session->truncate, true);
        } else {
            ss_drop(c, SS_loop_limit);
            ss_buf_free(c, job->buf);
        }
        job->next = c->free_jobs;
        c->free_jobs = job;
    }
}

/* Decides, after ingress, where the packet goes. Takes the buffer. */
static void ss_after_ingress(struct ss_ctx *c, struct ss_phv *p, struct ss_buf *b)
{
    if (p->x.failed) {
        ss_drop(c, SS_assertion);
        ss_buf_free(c, b);
        return;
    }
    if (__builtin_expect(p->x.clone, 0)) {
        ss_clone_ingress(c, p, b);
        p->x.clone = p->x.clone_list = 0;
    }
    if (__builtin_expect(p->x.resubmit, 0)) {
        ss_requeue(c, p, b, p->x.resubmit, SS_RESUBMIT);
        return;
    }
    b->start += p->x.parsed;
    b->len -= p->x.parsed;
    uint32_t group = (uint32_t)ss_get_mcast_grp(p), port = (uint32_t)ss_get_egress_spec(p);
    if (group) {
        const struct ss_replicas *to = c->groups[group & (SS_MAX_GROUPS - 1)];
        ss_set_instance_type(p, SS_REPLICATION);
        if (to) {
            ss_replicate(c, p, b, to, 0, true);
        } else {
            ss_drop(c, SS_empty_group);
            ss_buf_free(c, b);
        }
    } else if (port == SS_DROP_PORT) {
        ss_drop(c, SS_ingress_drop);
        ss_buf_free(c, b);
    } else {
        ss_set_instance_type(p, SS_NORMAL);
        ss_run_egress(c, p, b, port);
    }
}

/* One pass of a packet. Takes the buffer; what the pass resubmits or recirculates is queued. */
static void ss_process(struct ss_ctx *c, struct ss_buf *b)
{
    struct ss_phv *p = &c->phv;
    ss_begin(p, b);
    if (__builtin_expect(b->instance == SS_NORMAL, 1)) {
        ss_set_ingress_port(p, b->port);
        ss_set_ingress_global_timestamp(p, c->now_us);
    } else {
        ss_load_list(p, &b->saved, b->list);
    }
    ss_set_instance_type(p, b->instance);
    ss_set_packet_length(p, b->len);
    ss_parse(c, p);
    ss_set_parser_error(p, p->x.error);
    if (__builtin_expect(p->x.error, 0))
        ss_count_error(c, p->x.error);
    ss_set_checksum_error(p, p->x.checksum_error);
    ss_ingress(c, p);
    p->x.exit = false;
    ss_after_ingress(c, p, b);
    if (__builtin_expect(c->jobs_head != NULL, 0))
        ss_run_jobs(c);
}

/* Runs a new packet and everything that it causes to completion. Packets that were queued before
 * keep waiting: what they send must not be taken for output of this one. */
static void ss_process_fully(struct ss_ctx *c, struct ss_buf *b)
{
    struct ss_buf *others = c->queue_head, **others_tail = c->queue_tail;
    c->queue_head = NULL;
    c->queue_tail = &c->queue_head;
    for (unsigned n = 0; b; b = ss_queue_pop(c), n++) {
        if (n <= SS_MAX_PASSES) {
            ss_process(c, b);
        } else {
            ss_drop(c, SS_loop_limit);
            ss_buf_free(c, b);
        }
    }
    if (others) {
        c->queue_head = others;
        c->queue_tail = others_tail;
    }
}

#endif
