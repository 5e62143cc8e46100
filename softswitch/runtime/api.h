/* The functions that the control plane calls. All of them take the lock. */
#ifndef SS_API_H
#define SS_API_H

#include "digest_control.h"
#include "io.h"
#include "log.h"
#include "meter_control.h"
#include "profiles.h"
#include "tables.h"
#include "value_sets.h"

void ss_destroy(struct ss_ctx *c);

struct ss_ctx *ss_create(void)
{
    ss_hash_init();
    struct ss_ctx *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE); /* see batch.h */
    pthread_mutex_init(&c->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    c->start_us = ss_clock_us();
    c->manual_us = -1;
    c->random = c->start_us;
    c->queue_tail = &c->queue_head;
    c->jobs_tail = &c->jobs_head;
    if (!ss_io_open(c) || !ss_digests_open(c) || !ss_state_open(&c->state)
        || !ss_tables_open(c)) {
        ss_destroy(c);
        return NULL;
    }
    return c;
}

void ss_destroy(struct ss_ctx *c)
{
    if (c->io) {
        struct ss_capture_stats ignored;
        ss_capture_stop(c, &ignored);
        ss_io_close(c);
    }
    ss_tables_close(c);
    ss_profiles_close(c);
    ss_value_sets_close(c);
    ss_digests_close(c);
    ss_state_close(&c->state);
    for (struct ss_buf *b; (b = ss_queue_pop(c));)
        ss_buf_free(c, b);
    for (struct ss_buf *b; (b = c->free_bufs);) {
        c->free_bufs = b->next;
        free(b);
    }
    for (struct ss_job *job; (job = c->free_jobs);) {
        c->free_jobs = job->next;
        free(job);
    }
    for (uint32_t i = 0; i < SS_MAX_GROUPS; i++)
        free(c->groups[i]);
    for (uint32_t i = 0; i < SS_MAX_SESSIONS; i++)
        free(c->sessions[i]);
    pthread_mutex_destroy(&c->lock);
    free(c->log);
    free(c->out);
    free(c);
}

/* Replicas are pairs of port and rid. */
static void ss_replicas_fill(struct ss_replicas *r, const uint32_t *pairs, uint32_t count)
{
    r->count = count;
    for (uint32_t i = 0; i < count; i++) {
        r->to[i].port = pairs[2 * i];
        r->to[i].rid = pairs[2 * i + 1];
    }
}

/* Sets a multicast group, or removes it when `set` is 0. */
int ss_group_set(struct ss_ctx *c, uint32_t id, int set, const uint32_t *pairs, uint32_t count)
{
    struct ss_replicas *r = NULL;
    if (id >= SS_MAX_GROUPS)
        return -EINVAL;
    if (set && !(r = malloc(sizeof *r + count * sizeof r->to[0])))
        return -ENOMEM;
    if (r)
        ss_replicas_fill(r, pairs, count);
    ss_lock(c);
    struct ss_replicas *old = c->groups[id];
    c->groups[id] = r;
    ss_unlock(c);
    free(old);
    return 0;
}

int ss_session_set(struct ss_ctx *c, uint32_t id, int set, const uint32_t *pairs, uint32_t count,
                   uint32_t truncate)
{
    struct ss_session *s = NULL;
    if (id >= SS_MAX_SESSIONS)
        return -EINVAL;
    if (set && !(s = malloc(sizeof *s + count * sizeof s->replicas.to[0])))
        return -ENOMEM;
    if (s) {
        s->truncate = truncate;
        ss_replicas_fill(&s->replicas, pairs, count);
    }
    ss_lock(c);
    struct ss_session *old = c->sessions[id];
    c->sessions[id] = s;
    ss_unlock(c);
    free(old);
    return 0;
}

static struct ss_buf *ss_packet(struct ss_ctx *c, uint32_t port, const uint8_t *data, uint32_t len)
{
    return len <= SS_MAX_PACKET ? ss_buf_packet(c, port, data, len) : NULL;
}

/* Runs a packet to completion. *out: records of port, length (both uint32) and bytes, valid until
 * the next call; returns their total length, or -errno. */
int64_t ss_inject(struct ss_ctx *c, uint32_t port, const uint8_t *data, uint32_t len,
                  const uint8_t **out)
{
    ss_lock(c);
    struct ss_buf *b = ss_packet(c, port, data, len);
    int64_t result = b ? 0 : -EMSGSIZE;
    if (b) {
        c->capture = true;
        c->out_len = 0;
        ss_arrive_hooked(c, b);
        c->capture = false;
        ss_links_poll(c);
        *out = c->out;
        result = (int64_t)c->out_len;
    }
    ss_unlock(c);
    return result;
}

/* Runs a packet as if it came from `port`; what leaves goes to the ports. */
int ss_packet_out(struct ss_ctx *c, uint32_t port, const uint8_t *data, uint32_t len)
{
    ss_lock(c);
    struct ss_buf *b = ss_packet(c, port, data, len);
    if (b) {
        ss_record(c, SS_RX, port, data, len, -1);
        ss_process_fully(c, b);
        ss_links_poll(c);
        ss_flush_ports(c);
    }
    ss_unlock(c);
    return b ? 0 : -EMSGSIZE;
}

/* Runs `count` packets (offsets[i] to offsets[i + 1] in data) `rounds` times and throws away what
 * leaves. Returns nanoseconds of processor time; *sent is the number of packets that left. */
uint64_t ss_inject_batch(struct ss_ctx *c, uint32_t port, const uint8_t *data,
                         const uint64_t *offsets, uint32_t count, uint32_t rounds, uint64_t *sent)
{
    ss_lock(c);
    c->discard = true;
    c->sent = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (uint32_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < count; i++) {
            struct ss_buf *b
                = ss_packet(c, port, data + offsets[i], (uint32_t)(offsets[i + 1] - offsets[i]));
            if (b)
                ss_process_fully(c, b);
        }
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    c->discard = false;
    *sent = c->sent;
    ss_unlock(c);
    return (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)end.tv_nsec
           - (uint64_t)begin.tv_nsec;
}

void ss_drop_stats(struct ss_ctx *c, uint64_t *out)
{
    ss_lock(c);
    memcpy(out, c->drops, sizeof c->drops);
    ss_unlock(c);
}

/* Copies how often parsers found each of the SS_MAX_ERRORS first errors. */
void ss_parser_errors(struct ss_ctx *c, uint64_t *out)
{
    ss_lock(c);
    memcpy(out, c->parser_errors, sizeof c->parser_errors);
    ss_unlock(c);
}

#define SS_REASON(name) #name " "
const char *ss_drop_reasons(void) { return SS_DROP_REASONS(SS_REASON); }
#undef SS_REASON

/* Sets the time of the data plane, in us since its start; a negative one lets it run again. */
void ss_clock_set(struct ss_ctx *c, int64_t us)
{
    ss_lock(c);
    c->manual_us = us;
    ss_unlock(c);
}

uint64_t ss_clock_read(struct ss_ctx *c)
{
    ss_lock(c);
    uint64_t now_us = c->now_us;
    ss_unlock(c);
    return now_us;
}

/* Copies the oldest unread message of log_msg; 0 when there is none. */
int ss_log_read(struct ss_ctx *c, char *out)
{
    int found = 0;
    ss_lock(c);
    struct ss_log *log = c->log;
    if (log && log->read < log->written) {
        if (log->written - log->read > SS_LOG_LINES)
            log->read = log->written - SS_LOG_LINES;
        memcpy(out, log->lines[log->read++ % SS_LOG_LINES], SS_LOG_WIDTH);
        found = 1;
    }
    ss_unlock(c);
    return found;
}

#endif
