/* Ports: AF_PACKET sockets, read and written in batches by one thread, and the CPU port.
 *
 * The thread holds the lock while it works on a batch and lets waiting threads go first between
 * batches. Frames that a full queue of an interface refuses are counted and dropped: the data plane
 * never waits for a port. */
#ifndef SS_IO_H
#define SS_IO_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum {
    SS_BATCH = 64,
    SS_TX_QUEUE = 256,
    SS_CPU_QUEUE = 4096,
    SS_RCVBUF = 32 << 20,
    SS_SNDBUF = 8 << 20,
    SS_QUEUE_BATCH = 256, /* recirculated packets per turn of the loop */
};

struct ss_port {
    int fd;
    uint32_t number, pending;
    uint64_t rx, rx_bytes, tx, tx_bytes, tx_errors, oversize;
    struct ss_buf *bufs[SS_TX_QUEUE];
    struct mmsghdr msgs[SS_TX_QUEUE];
    struct iovec iovs[SS_TX_QUEUE];
};

struct ss_io {
    struct ss_port *ports[SS_MAX_PORTS];
    struct ss_port *dirty[SS_MAX_PORTS]; /* ports with frames to send */
    uint32_t ndirty;
    int epoll, wake;
    _Atomic bool stop;
    int32_t cpu_port; /* -1: none */
    int cpu_event;
    struct ss_buf *cpu_head, **cpu_tail;
    uint32_t cpu_count;
    struct ss_buf *rx_bufs[SS_BATCH];
    struct mmsghdr rx_msgs[SS_BATCH];
    struct iovec rx_iovs[SS_BATCH];
    struct sockaddr_ll rx_from[SS_BATCH];
};

static uint64_t ss_clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void ss_lock(struct ss_ctx *c)
{
    atomic_fetch_add(&c->waiting, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&c->waiting, 1);
    c->now_us = ss_clock_us() - c->start_us;
}

static void ss_unlock(struct ss_ctx *c) { pthread_mutex_unlock(&c->lock); }

/* Takes the lock for the data plane, after the threads that wait for it. */
static void ss_lock_polite(struct ss_ctx *c)
{
    for (int i = 0; i < 1000 && atomic_load(&c->waiting); i++)
        sched_yield();
    pthread_mutex_lock(&c->lock);
    c->now_us = ss_clock_us() - c->start_us;
}

static void ss_port_flush(struct ss_ctx *c, struct ss_port *port)
{
    uint32_t sent = 0;
    while (sent < port->pending) {
        int n = sendmmsg(port->fd, port->msgs + sent, port->pending - sent, MSG_DONTWAIT);
        if (n <= 0) {
            if (n < 0 && errno == EINTR)
                continue;
            port->tx_errors++; /* the first frame of the rest was refused */
            sent++;
            continue;
        }
        for (int i = 0; i < n; i++)
            port->tx_bytes += port->msgs[sent + (uint32_t)i].msg_len;
        port->tx += (uint32_t)n;
        sent += (uint32_t)n;
    }
    for (uint32_t i = 0; i < port->pending; i++)
        ss_buf_free(c, port->bufs[i]);
    port->pending = 0;
}

static void ss_flush_ports(struct ss_ctx *c)
{
    for (uint32_t i = 0; i < c->io->ndirty; i++)
        ss_port_flush(c, c->io->dirty[i]);
    c->io->ndirty = 0;
}

static void ss_port_send(struct ss_ctx *c, struct ss_port *port, struct ss_buf *b)
{
    if (port->pending == SS_TX_QUEUE)
        ss_flush_ports(c);
    if (!port->pending)
        c->io->dirty[c->io->ndirty++] = port;
    uint32_t i = port->pending++;
    port->bufs[i] = b;
    port->iovs[i] = (struct iovec){b->start, b->len};
    port->msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &port->iovs[i], .msg_iovlen = 1}};
}

static void ss_cpu_send(struct ss_ctx *c, struct ss_buf *b)
{
    struct ss_io *io = c->io;
    if (io->cpu_count >= SS_CPU_QUEUE) {
        ss_drop(c, SS_cpu_queue_full);
        ss_buf_free(c, b);
        return;
    }
    b->next = NULL;
    *io->cpu_tail = b;
    io->cpu_tail = &b->next;
    io->cpu_count++;
    eventfd_write(io->cpu_event, 1);
}

static bool ss_out_reserve(struct ss_ctx *c, uint64_t more)
{
    if (c->out_len + more <= c->out_room)
        return true;
    uint64_t room = 2 * (c->out_len + more);
    uint8_t *out = realloc(c->out, room);
    if (!out)
        return false;
    c->out = out;
    c->out_room = room;
    return true;
}

/* Appends port, length and bytes to the captured output. */
static void ss_capture(struct ss_ctx *c, const struct ss_buf *b, uint32_t port)
{
    if (!ss_out_reserve(c, 8 + (uint64_t)b->len)) {
        ss_drop(c, SS_no_buffer);
        return;
    }
    memcpy(c->out + c->out_len, &port, 4);
    memcpy(c->out + c->out_len + 4, &b->len, 4);
    memcpy(c->out + c->out_len + 8, b->start, b->len);
    c->out_len += 8 + b->len;
}

/* Where packets leave. Takes the buffer. */
static void ss_send(struct ss_ctx *c, struct ss_buf *b, uint32_t port)
{
    if (c->capture || c->discard) {
        if (c->capture)
            ss_capture(c, b, port);
        c->sent++;
        ss_buf_free(c, b);
    } else if ((int64_t)port == c->io->cpu_port) {
        ss_cpu_send(c, b);
    } else if (port < SS_MAX_PORTS && c->io->ports[port]) {
        ss_port_send(c, c->io->ports[port], b);
    } else {
        ss_drop(c, SS_no_port);
        ss_buf_free(c, b);
    }
}

/* Gives every receive slot a buffer; returns how many slots are ready. */
static unsigned ss_rx_prepare(struct ss_ctx *c)
{
    struct ss_io *io = c->io;
    unsigned n = 0;
    for (; n < SS_BATCH; n++) {
        if (!io->rx_bufs[n] && !(io->rx_bufs[n] = ss_buf_new(c)))
            break;
        io->rx_iovs[n] = (struct iovec){io->rx_bufs[n]->start, SS_MAX_PACKET};
        io->rx_msgs[n].msg_hdr = (struct msghdr){.msg_name = &io->rx_from[n],
                                                 .msg_namelen = sizeof io->rx_from[n],
                                                 .msg_iov = &io->rx_iovs[n],
                                                 .msg_iovlen = 1};
    }
    return n;
}

static void ss_port_receive(struct ss_ctx *c, struct ss_port *port)
{
    struct ss_io *io = c->io;
    int n = recvmmsg(port->fd, io->rx_msgs, ss_rx_prepare(c), MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        const struct mmsghdr *msg = &io->rx_msgs[i];
        if (io->rx_from[i].sll_pkttype == PACKET_OUTGOING)
            continue;
        if (msg->msg_hdr.msg_flags & MSG_TRUNC) {
            port->oversize++;
            continue;
        }
        struct ss_buf *b = io->rx_bufs[i];
        io->rx_bufs[i] = NULL;
        b->len = b->ingress_length = msg->msg_len;
        b->port = port->number;
        b->instance = SS_NORMAL;
        port->rx++;
        port->rx_bytes += msg->msg_len;
        ss_process(c, b);
    }
}

static void ss_run_queue(struct ss_ctx *c)
{
    struct ss_buf *b;
    for (unsigned n = 0; n < SS_QUEUE_BATCH && (b = ss_queue_pop(c)); n++)
        ss_process(c, b);
}

/* The data-plane thread: returns 0 after ss_stop, or an errno. */
int ss_run(struct ss_ctx *c)
{
    struct ss_io *io = c->io;
    struct epoll_event events[SS_BATCH];
    bool busy = false;
    while (!atomic_load(&io->stop)) {
        int n = epoll_wait(io->epoll, events, SS_BATCH, busy ? 0 : -1);
        if (n < 0 && errno != EINTR)
            return errno;
        ss_lock_polite(c);
        for (int i = 0; i < n; i++) {
            uint32_t number = events[i].data.u32;
            if (number < SS_MAX_PORTS && io->ports[number])
                ss_port_receive(c, io->ports[number]);
        }
        ss_run_queue(c);
        ss_flush_ports(c);
        busy = c->queue_head != NULL;
        ss_unlock(c);
    }
    return 0;
}

/* Makes ss_run return (1), or lets it be called again (0). */
void ss_stop(struct ss_ctx *c, int stop)
{
    atomic_store(&c->io->stop, stop != 0);
    eventfd_t ignored;
    if (stop)
        eventfd_write(c->io->wake, 1);
    else
        eventfd_read(c->io->wake, &ignored);
}

static int ss_socket_open(const char *ifname)
{
    unsigned index = if_nametoindex(ifname);
    if (!index)
        return -ENODEV;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int one = 1, rcvbuf = SS_RCVBUF, sndbuf = SS_SNDBUF;
    struct packet_mreq promiscuous = {.mr_ifindex = (int)index, .mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)index};
    /* Kernels before 4.20 lack the option: outgoing frames are then skipped one by one. */
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof rcvbuf))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof sndbuf))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous)
        || bind(fd, (struct sockaddr *)&address, sizeof address)) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

static void ss_port_close(struct ss_ctx *c, struct ss_port *port)
{
    ss_flush_ports(c);
    c->io->ports[port->number] = NULL;
    close(port->fd); /* also leaves the epoll set */
    free(port);
}

/* Binds port `number` to an interface; 0 or -errno. */
int ss_port_attach(struct ss_ctx *c, uint32_t number, const char *ifname)
{
    if (number >= SS_MAX_PORTS)
        return -EINVAL;
    struct ss_port *port = calloc(1, sizeof *port);
    if (!port)
        return -ENOMEM;
    port->fd = ss_socket_open(ifname);
    port->number = number;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    int error = port->fd < 0 ? port->fd : 0;
    ss_lock(c);
    if (!error && c->io->ports[number])
        error = -EEXIST;
    if (!error && epoll_ctl(c->io->epoll, EPOLL_CTL_ADD, port->fd, &event))
        error = -errno;
    if (!error)
        c->io->ports[number] = port;
    ss_unlock(c);
    if (error) {
        if (port->fd >= 0)
            close(port->fd);
        free(port);
    }
    return error;
}

int ss_port_detach(struct ss_ctx *c, uint32_t number)
{
    int error = -ENOENT;
    ss_lock(c);
    if (number < SS_MAX_PORTS && c->io->ports[number]) {
        ss_port_close(c, c->io->ports[number]);
        error = 0;
    }
    ss_unlock(c);
    return error;
}

/* rx, rx_bytes, tx, tx_bytes, tx_errors, oversize of a port. */
int ss_port_stats(struct ss_ctx *c, uint32_t number, uint64_t *out)
{
    if (number >= SS_MAX_PORTS)
        return -EINVAL;
    ss_lock(c);
    const struct ss_port *port = c->io->ports[number];
    if (port) {
        const uint64_t values[] = {port->rx,       port->rx_bytes,  port->tx,
                                   port->tx_bytes, port->tx_errors, port->oversize};
        memcpy(out, values, sizeof values);
    }
    ss_unlock(c);
    return port ? 0 : -ENOENT;
}

void ss_cpu_port(struct ss_ctx *c, int32_t port)
{
    ss_lock(c);
    c->io->cpu_port = port;
    ss_unlock(c);
}

int ss_cpu_event(struct ss_ctx *c) { return c->io->cpu_event; }

/* Takes the oldest packet for the CPU: its length, or -1 when there is none. */
int64_t ss_cpu_receive(struct ss_ctx *c, uint8_t *out, uint32_t room)
{
    int64_t len = -1;
    ss_lock(c);
    struct ss_io *io = c->io;
    struct ss_buf *b = io->cpu_head;
    if (b) {
        if (!(io->cpu_head = b->next))
            io->cpu_tail = &io->cpu_head;
        io->cpu_count--;
        len = b->len < room ? b->len : room;
        memcpy(out, b->start, (size_t)len);
        ss_buf_free(c, b);
    } else {
        eventfd_t ignored;
        eventfd_read(io->cpu_event, &ignored);
    }
    ss_unlock(c);
    return len;
}

static bool ss_io_open(struct ss_ctx *c)
{
    struct ss_io *io = calloc(1, sizeof *io);
    if (!io)
        return false;
    c->io = io;
    io->cpu_port = -1;
    io->cpu_tail = &io->cpu_head;
    io->epoll = epoll_create1(EPOLL_CLOEXEC);
    io->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    io->cpu_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    return io->epoll >= 0 && io->wake >= 0 && io->cpu_event >= 0
           && !epoll_ctl(io->epoll, EPOLL_CTL_ADD, io->wake, &event);
}

static void ss_io_close(struct ss_ctx *c)
{
    struct ss_io *io = c->io;
    for (uint32_t i = 0; i < SS_MAX_PORTS; i++)
        if (io->ports[i])
            ss_port_close(c, io->ports[i]);
    close(io->epoll);
    close(io->wake);
    close(io->cpu_event);
    for (unsigned i = 0; i < SS_BATCH; i++)
        if (io->rx_bufs[i])
            ss_buf_free(c, io->rx_bufs[i]);
    while (io->cpu_head) {
        struct ss_buf *b = io->cpu_head;
        io->cpu_head = b->next;
        ss_buf_free(c, b);
    }
    free(io);
}

#endif
