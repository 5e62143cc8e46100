/* Captures: what passes the ports, as one pcapng file per port.
 *
 * The data plane appends blocks to a chunk in memory; a thread of its own takes the chunk away and
 * writes it, so that packets never wait for a disk. What finds the chunk full is missed (counted),
 * as is what a file has no room for. Packets are recorded after the faults of their link: those
 * that came through as they are, those that it lost with a comment. */
#ifndef SS_CAPTURE_H
#define SS_CAPTURE_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "ports.h"

enum {
    SS_CHUNK = 4 << 20,
    SS_CHUNK_WAIT_MS = 100, /* a chunk is written after this time at the latest */
    SS_IFNAME = 64,
};

struct ss_capture_stats {
    uint64_t recorded, missed, error; /* error: errno of the last failure to write */
};

struct ss_chunk {
    uint32_t used;
    uint8_t data[SS_CHUNK];
};

/* Before each block in a chunk. */
struct ss_record {
    uint32_t port, size;
};

struct ss_capture_file {
    FILE *file; /* NULL: not opened yet, or `closed` */
    uint64_t bytes;
    bool closed;
    char name[SS_IFNAME];
};

struct ss_recorder {
    pthread_mutex_t lock; /* of what both threads use: chunk, stats, stop and names */
    pthread_cond_t filled;
    pthread_t thread;
    struct ss_chunk *chunk, *spare;
    struct ss_capture_stats stats;
    bool stop;
    uint32_t snaplen;
    uint64_t max_bytes;
    int directory;
    struct ss_capture_file files[SS_MAX_PORTS];
};

static const char *const ss_drop_names[] = {
#define SS_REASON(name) #name,
    SS_DROP_REASONS(SS_REASON)
#undef SS_REASON
};

/* Blocks, in the machine's byte order, which the section header tells */

static uint8_t *ss_put32(uint8_t *out, uint32_t value)
{
    memcpy(out, &value, 4);
    return out + 4;
}

static uint8_t *ss_put16s(uint8_t *out, uint16_t first, uint16_t second)
{
    memcpy(out, &first, 2);
    memcpy(out + 2, &second, 2);
    return out + 4;
}

static uint32_t ss_pad4(uint32_t size) { return (size + 3) & ~3u; }

static uint8_t *ss_put_bytes(uint8_t *out, const void *data, uint32_t size)
{
    memcpy(out, data, size);
    memset(out + size, 0, ss_pad4(size) - size);
    return out + ss_pad4(size);
}

static uint8_t *ss_put_option(uint8_t *out, uint16_t code, const void *data, uint32_t size)
{
    return ss_put_bytes(ss_put16s(out, code, (uint16_t)size), data, size);
}

/* Ends the block that began at `block`. */
static uint32_t ss_put_end(uint8_t *block, uint8_t *out)
{
    out = ss_put32(out, 0); /* end of options */
    uint32_t size = (uint32_t)(out - block) + 4;
    ss_put32(out, size);
    ss_put32(block + 4, size);
    return size;
}

/* The section header and the description of the only interface; `out` has 512 bytes. */
static uint32_t ss_put_section(uint8_t *out, const char *ifname, uint32_t snaplen)
{
    uint8_t *at = ss_put32(out, 0x0a0d0d0a);
    at = ss_put32(ss_put32(at, 0), 0x1a2b3c4d);
    at = ss_put16s(at, 1, 0);                            /* version 1.0 */
    at = ss_put32(ss_put32(at, UINT32_MAX), UINT32_MAX); /* length of the section: not said */
    at = ss_put_option(at, 4, "softswitch", 10);         /* shb_userappl */
    uint32_t first = ss_put_end(out, at);
    uint8_t *interface = out + first, nanoseconds = 9;
    at = ss_put32(ss_put32(interface, 1), 0);
    at = ss_put16s(at, 1, 0); /* Ethernet */
    at = ss_put32(at, snaplen);
    at = ss_put_option(at, 2, ifname, (uint32_t)strlen(ifname)); /* if_name */
    at = ss_put_option(at, 9, &nanoseconds, 1);                  /* if_tsresol */
    return first + ss_put_end(interface, at);
}

/* A packet; `out` has room for 128 bytes more than it has. */
static uint32_t ss_put_packet(uint8_t *out, enum ss_direction direction, const uint8_t *data,
                              uint32_t len, uint32_t snaplen, const char *comment)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    uint32_t kept = snaplen && len > snaplen ? snaplen : len;
    uint32_t flags = direction == SS_RX ? 1 : 2; /* inbound, outbound */
    uint8_t *at = ss_put32(ss_put32(ss_put32(out, 6), 0), 0);
    at = ss_put32(ss_put32(at, (uint32_t)(ns >> 32)), (uint32_t)ns);
    at = ss_put_bytes(ss_put32(ss_put32(at, kept), len), data, kept);
    at = ss_put_option(at, 2, &flags, 4); /* epb_flags */
    if (comment)
        at = ss_put_option(at, 1, comment, (uint32_t)strlen(comment));
    return ss_put_end(out, at);
}

/* Records a packet; `reason` says why it was lost, or is negative. */
static void ss_record(struct ss_ctx *c, enum ss_direction direction, uint32_t port,
                      const uint8_t *data, uint32_t len, int reason)
{
    struct ss_recorder *r = c->io->recorder;
    if (!r || port >= SS_MAX_PORTS)
        return;
    const char *comment = reason < 0 ? NULL : ss_drop_names[reason];
    pthread_mutex_lock(&r->lock);
    struct ss_chunk *chunk = r->chunk;
    if (chunk->used + sizeof(struct ss_record) + len + 128 > SS_CHUNK) {
        r->stats.missed++;
    } else {
        uint8_t *at = chunk->data + chunk->used;
        struct ss_record record = {port, 0};
        record.size
            = ss_put_packet(at + sizeof record, direction, data, len, r->snaplen, comment);
        memcpy(at, &record, sizeof record);
        bool wake = !chunk->used;
        chunk->used += (uint32_t)sizeof record + record.size;
        if (wake || chunk->used > SS_CHUNK / 2)
            pthread_cond_signal(&r->filled);
    }
    pthread_mutex_unlock(&r->lock);
}

/* The writing thread */

static void ss_capture_fail(struct ss_capture_file *f, struct ss_capture_stats *stats)
{
    stats->error = (uint64_t)errno;
    f->closed = true;
    if (f->file)
        fclose(f->file);
    f->file = NULL;
}

/* Opens a port's file: a further section, if it is there. */
static void ss_capture_open(struct ss_recorder *r, uint32_t port, struct ss_capture_stats *stats)
{
    struct ss_capture_file *f = &r->files[port];
    uint8_t section[512];
    char name[SS_IFNAME], path[32];
    struct stat info;
    snprintf(path, sizeof path, "port-%u.pcapng", port);
    pthread_mutex_lock(&r->lock);
    memcpy(name, f->name, sizeof name);
    pthread_mutex_unlock(&r->lock);
    if (!name[0])
        snprintf(name, sizeof name, "port %u", port);
    int fd = openat(r->directory, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                    S_IRUSR | S_IWUSR);
    if (fd >= 0 && !(f->file = fdopen(fd, "ab")))
        close(fd);
    uint32_t size = ss_put_section(section, name, r->snaplen);
    if (!f->file || fstat(fd, &info) || fwrite(section, size, 1, f->file) != 1)
        ss_capture_fail(f, stats);
    else
        f->bytes = (uint64_t)info.st_size + size;
}

static void ss_capture_block(struct ss_recorder *r, const struct ss_record *record,
                             const uint8_t *block, struct ss_capture_stats *stats)
{
    struct ss_capture_file *f = &r->files[record->port];
    if (!f->file && !f->closed)
        ss_capture_open(r, record->port, stats);
    if (!f->file || f->bytes + record->size > r->max_bytes) {
        stats->missed++;
    } else if (fwrite(block, record->size, 1, f->file) != 1) {
        ss_capture_fail(f, stats);
        stats->missed++;
    } else {
        f->bytes += record->size;
        stats->recorded++;
    }
}

static void ss_capture_write(struct ss_recorder *r, const struct ss_chunk *chunk)
{
    struct ss_capture_stats stats = {0};
    struct ss_record record;
    for (uint32_t at = 0; at < chunk->used; at += record.size) {
        memcpy(&record, chunk->data + at, sizeof record);
        at += sizeof record;
        ss_capture_block(r, &record, chunk->data + at, &stats);
    }
    for (uint32_t i = 0; i < SS_MAX_PORTS; i++)
        if (r->files[i].file && fflush(r->files[i].file))
            ss_capture_fail(&r->files[i], &stats);
    pthread_mutex_lock(&r->lock);
    r->stats.recorded += stats.recorded;
    r->stats.missed += stats.missed;
    if (stats.error)
        r->stats.error = stats.error;
    pthread_mutex_unlock(&r->lock);
}

static void *ss_recorder_run(void *argument)
{
    struct ss_recorder *r = argument;
    pthread_mutex_lock(&r->lock);
    while (true) {
        while (!r->chunk->used && !r->stop)
            pthread_cond_wait(&r->filled, &r->lock);
        if (!r->chunk->used)
            break;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SS_CHUNK_WAIT_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        int late = 0;
        while (!late && !r->stop && r->chunk->used <= SS_CHUNK / 2)
            late = pthread_cond_timedwait(&r->filled, &r->lock, &until);
        struct ss_chunk *full = r->chunk;
        r->chunk = r->spare;
        r->spare = full;
        pthread_mutex_unlock(&r->lock);
        ss_capture_write(r, full);
        full->used = 0;
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Control */

static void ss_recorder_free(struct ss_recorder *r)
{
    for (uint32_t i = 0; i < SS_MAX_PORTS; i++)
        if (r->files[i].file)
            fclose(r->files[i].file);
    if (r->directory >= 0)
        close(r->directory);
    pthread_cond_destroy(&r->filled);
    pthread_mutex_destroy(&r->lock);
    free(r->chunk);
    free(r->spare);
    free(r);
}

static struct ss_recorder *ss_recorder_new(const char *directory, uint32_t snaplen,
                                           uint64_t max_bytes)
{
    struct ss_recorder *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&r->lock, NULL);
    r->snaplen = snaplen;
    r->max_bytes = max_bytes;
    r->chunk = malloc(sizeof *r->chunk);
    r->spare = malloc(sizeof *r->spare);
    r->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!r->chunk || !r->spare || r->directory < 0) {
        ss_recorder_free(r);
        return NULL;
    }
    r->chunk->used = r->spare->used = 0;
    return r;
}

/* Starts the thread without any signals: those of the process are for its other threads. */
static int ss_recorder_start(struct ss_recorder *r)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&r->thread, NULL, ss_recorder_run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Starts to capture into `directory`; 0 or -errno. A port's file has at most `max_bytes`. */
int ss_capture_start(struct ss_ctx *c, const char *directory, uint32_t snaplen, uint64_t max_bytes)
{
    errno = ENOMEM;
    struct ss_recorder *r = ss_recorder_new(directory, snaplen, max_bytes);
    if (!r)
        return -errno;
    int error = ss_recorder_start(r);
    if (error) {
        ss_recorder_free(r);
        return -error;
    }
    ss_lock(c);
    c->io->recorder = r;
    c->io->hooked = true;
    ss_unlock(c);
    return 0;
}

/* Says what the interface of a port is called in its file. */
void ss_capture_name(struct ss_ctx *c, uint32_t port, const char *name)
{
    ss_lock(c);
    struct ss_recorder *r = c->io->recorder;
    if (r && port < SS_MAX_PORTS) {
        pthread_mutex_lock(&r->lock);
        snprintf(r->files[port].name, SS_IFNAME, "%s", name);
        pthread_mutex_unlock(&r->lock);
    }
    ss_unlock(c);
}

/* Ends the capture, with all that was recorded written, and returns its counters. */
void ss_capture_stop(struct ss_ctx *c, struct ss_capture_stats *out)
{
    ss_lock(c);
    struct ss_recorder *r = c->io->recorder;
    c->io->recorder = NULL;
    ss_unlock(c);
    memset(out, 0, sizeof *out);
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->filled);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    *out = r->stats;
    ss_recorder_free(r);
}

void ss_capture_stats(struct ss_ctx *c, struct ss_capture_stats *out)
{
    memset(out, 0, sizeof *out);
    ss_lock(c);
    struct ss_recorder *r = c->io->recorder;
    if (r) {
        pthread_mutex_lock(&r->lock);
        *out = r->stats;
        pthread_mutex_unlock(&r->lock);
    }
    ss_unlock(c);
}

#endif
