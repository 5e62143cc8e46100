/* Where packets leave: AF_PACKET sockets, written in batches, the CPU port, and captured output.
 *
 * Frames that a full queue of an interface refuses are counted and dropped: the data plane never
 * waits for a port. */
#ifndef SS_PORTS_H
#define SS_PORTS_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "ring.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum {
    SS_BATCH = 64,
    SS_TX_QUEUE = 256,
    SS_CPU_QUEUE = 4096,
    SS_RCVBUF = 32 << 20,
    SS_SNDBUF = 8 << 20,
    SS_AWAKE_FRAMES = 16, /* in a turn, from which on the thread stays awake */
    SS_AWAKE_NS = 1000000, /* until other ports are asked */
    SS_LINGER_NS = 30000, /* without a frame, until the thread sleeps */
    SS_TURNS = 4, /* full batches of one port before the next port's turn */
    SS_QUEUE_BATCH = 256, /* recirculated packets per turn of the loop */
};

/* A packet socket on an interface, which has the number `index`. */
struct ss_socket {
    int fd;
    unsigned index;
    bool sees_own; /* the kernel cannot keep frames that were sent from being received */
    uint32_t ring_places; /* asked for */
    int no_ring; /* an errno: why there is no ring */
    struct ss_ring ring;
};

struct ss_port {
    char name[IF_NAMESIZE];
    struct ss_socket socket;
    int claim;
    uint32_t number, pending;
    uint64_t rx, rx_bytes, tx, tx_bytes, tx_errors, oversize, rx_dropped;
    struct ss_buf *bufs[SS_TX_QUEUE];
    struct mmsghdr msgs[SS_TX_QUEUE];
    struct iovec iovs[SS_TX_QUEUE];
};

/* Room for what comes beside a frame that is received as a message. */
union ss_rx_tag {
    struct cmsghdr alignment;
    uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

struct ss_links;
struct ss_recorder;

struct ss_io {
    struct ss_port *ports[SS_MAX_PORTS];
    struct ss_port *dirty[SS_MAX_PORTS]; /* ports with frames to send */
    uint32_t ndirty;
    int epoll, wake, link_events;
    _Atomic bool stop;
    bool hooked; /* packets pass by faults.h and capture.h */
    struct ss_links *links;
    struct ss_recorder *recorder;
    int32_t cpu_port; /* -1: none */
    int cpu_event;
    struct ss_buf *cpu_head, **cpu_tail;
    uint32_t cpu_count;
    struct ss_buf *rx_bufs[SS_BATCH];
    struct mmsghdr rx_msgs[SS_BATCH];
    struct iovec rx_iovs[SS_BATCH];
    union ss_rx_tag rx_tags[SS_BATCH];
    struct sockaddr_ll rx_from[SS_BATCH]; /* used if sees_own */
    bool sees_own; /* of any socket */
    unsigned rx_missing; /* slots from the first on that may need a buffer */
};

static uint64_t ss_clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t ss_now_us(const struct ss_ctx *c)
{
    return c->manual_us < 0 ? ss_clock_us() - c->start_us : (uint64_t)c->manual_us;
}

static void ss_lock(struct ss_ctx *c)
{
    atomic_fetch_add(&c->waiting, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&c->waiting, 1);
    c->now_us = ss_now_us(c);
}

static void ss_unlock(struct ss_ctx *c) { pthread_mutex_unlock(&c->lock); }

static void ss_port_flush(struct ss_ctx *c, struct ss_port *port)
{
    uint32_t sent = 0;
    while (sent < port->pending) {
        int n = sendmmsg(port->socket.fd, port->msgs + sent, port->pending - sent, MSG_DONTWAIT);
        if (n <= 0) {
            if (n < 0 && errno == EINTR)
                continue;
            port->tx_errors++; /* the first frame of the rest was refused */
            ss_drop(c, SS_tx_error);
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

/* Whether packets may leave by `port`. */
static bool ss_has_port(const struct ss_ctx *c, uint32_t port)
{
    return (int64_t)port == c->io->cpu_port || (port < SS_MAX_PORTS && c->io->ports[port]);
}

static void ss_send_hooked(struct ss_ctx *c, struct ss_buf *b, uint32_t port);

/* Where packets leave. Takes the buffer. */
static void ss_leave(struct ss_ctx *c, struct ss_buf *b, uint32_t port)
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

static void ss_send(struct ss_ctx *c, struct ss_buf *b, uint32_t port)
{
    if (__builtin_expect(c->io->hooked, 0))
        ss_send_hooked(c, b, port);
    else
        ss_leave(c, b, port);
}

/* Keeps other switches from an interface while the result is open: a name of which there is one in
 * each network namespace, and which ends with its process. -EBUSY if another switch has it. */
static int ss_claim(unsigned index)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int size = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "softswitch port %u", index);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t room = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, room)) {
        int error = errno == EADDRINUSE ? EBUSY : errno;
        close(fd);
        return -error;
    }
    return fd < 0 ? -errno : fd;
}

static void ss_socket_close(struct ss_socket *s)
{
    ss_ring_close(&s->ring);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

static void ss_socket_set_up(struct ss_socket *s)
{
    int on = 1, rcvbuf = SS_RCVBUF, sndbuf = SS_SNDBUF;
    /* Kernels before 4.20 lack the option: outgoing frames are then skipped one by one. */
    s->sees_own = setsockopt(s->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0;
    if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof rcvbuf))
        setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
    if (setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof sndbuf))
        setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    if (s->ring_places)
        s->no_ring = ss_ring_open(&s->ring, s->fd, s->ring_places);
    if (!s->ring.map)
        setsockopt(s->fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof on); /* VLAN tags */
}

/* Opens a packet socket on an interface, with a ring if it is to have one and the kernel gives it;
 * 0 or -errno. */
static int ss_socket_open(struct ss_socket *s, const char *ifname, uint32_t ring_places)
{
    *s = (struct ss_socket){.fd = -1, .index = if_nametoindex(ifname), .ring_places = ring_places};
    if (!s->index)
        return -ENODEV;
    s->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return -errno;
    ss_socket_set_up(s);
    struct packet_mreq promiscuous = {.mr_ifindex = (int)s->index, .mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)s->index};
    if (setsockopt(s->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous)
        || bind(s->fd, (struct sockaddr *)&address, sizeof address)) {
        int error = errno;
        ss_socket_close(s);
        return -error;
    }
    return 0;
}

#endif
