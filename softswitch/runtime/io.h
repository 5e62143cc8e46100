/* The data-plane thread and the control of ports.
 *
 * The thread receives in batches. It holds the lock while it works on a batch and lets waiting
 * threads go first between batches. */
#ifndef SS_IO_H
#define SS_IO_H

#include <sched.h>
#include <sys/epoll.h>
#include <time.h>

#include "receive.h"
#include "revive.h"

/* Takes the lock for the data plane, after the threads that wait for it. */
static void ss_lock_polite(struct ss_ctx *c)
{
    for (int i = 0; i < 1000 && atomic_load(&c->waiting); i++)
        sched_yield();
    pthread_mutex_lock(&c->lock);
    c->now_us = ss_now_us(c);
}

/* Serves a port while its batches are full, for a few turns: asking which ports have something
 * costs a system call. Returns how many frames there were. */
static unsigned ss_port_serve(struct ss_ctx *c, struct ss_port *port, uint32_t events)
{
    int error, taken;
    unsigned frames = 0;
    socklen_t size = sizeof error;
    if (events & EPOLLERR) /* the interface went down: an error that is not taken comes again */
        getsockopt(port->socket.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    for (unsigned turn = 0; turn < SS_TURNS; turn++) {
        frames += (unsigned)(taken = ss_port_receive(c, port));
        if (taken < SS_BATCH || atomic_load(&c->waiting))
            break;
        ss_flush_ports(c);
    }
    return frames;
}

static void ss_run_queue(struct ss_ctx *c)
{
    struct ss_buf *b;
    for (unsigned n = 0; n < SS_QUEUE_BATCH && (b = ss_queue_pop(c)); n++)
        ss_process(c, b);
}

/* What a turn of the loop has found. */
struct ss_turn {
    unsigned frames;
    bool busy; /* packets wait in the queue */
};

/* Serves the ports and others that have something. */
static struct ss_turn ss_serve(struct ss_ctx *c, const struct epoll_event *events, int n)
{
    struct ss_io *io = c->io;
    struct ss_turn turn = {0};
    ss_lock_polite(c);
    for (int i = 0; i < n; i++) {
        uint32_t number = events[i].data.u32;
        if (number < SS_MAX_PORTS && io->ports[number])
            turn.frames += ss_port_serve(c, io->ports[number], events[i].events);
        else if (number == SS_LINK_EVENTS)
            ss_link_events_take(c);
    }
    ss_run_queue(c);
    if (__builtin_expect(io->hooked, 0))
        ss_links_poll(c); /* after all that may put packets on links */
    ss_flush_ports(c);
    turn.busy = c->queue_head != NULL;
    ss_unlock(c);
    return turn;
}

/* Staying awake
 *
 * The kernel tells the epoll set of each frame that arrives, and wakes the thread if it sleeps: the
 * sender pays for both. While ports have much to say the thread therefore takes their sockets out of
 * the set and looks at their rings itself, as drivers do with interrupts. */

/* Takes ports with rings out of the epoll set; keeps only them in `events` and returns how many. */
static int ss_watch_rings(struct ss_ctx *c, struct epoll_event *events, int n)
{
    struct ss_io *io = c->io;
    int watched = 0;
    ss_lock(c);
    for (int i = 0; i < n; i++) {
        uint32_t number = events[i].data.u32;
        const struct ss_port *port = number < SS_MAX_PORTS ? io->ports[number] : NULL;
        if (port && port->socket.ring.map
            && !epoll_ctl(io->epoll, EPOLL_CTL_DEL, port->socket.fd, NULL))
            events[watched++] = (struct epoll_event){.events = EPOLLIN, .data.u32 = number};
    }
    ss_unlock(c);
    return watched;
}

/* Puts ports back into the epoll set: it reports at once what came meanwhile. Those that are gone
 * are not missed, and the set has those already whose sockets are new. */
static void ss_watch_events(struct ss_ctx *c, struct epoll_event *events, int n)
{
    struct ss_io *io = c->io;
    ss_lock(c);
    for (int i = 0; i < n; i++) {
        const struct ss_port *port = io->ports[events[i].data.u32];
        if (port)
            epoll_ctl(io->epoll, EPOLL_CTL_ADD, port->socket.fd, &events[i]);
    }
    ss_unlock(c);
}

static bool ss_rings_have(const struct ss_io *io, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        const struct ss_port *port = io->ports[events[i].data.u32];
        if (port && port->socket.ring.map && ss_ring_frame(&port->socket.ring, 0))
            return true;
    }
    return false;
}

/* Waits a moment for frames: false if there are none. Threads that want the lock end it. To yield the
 * processor instead would cost a whole slice of whoever else is on it. */
static bool ss_linger(struct ss_ctx *c, const struct epoll_event *events, int n)
{
    uint64_t until = ss_clock_ns() + SS_LINGER_NS;
    bool more;
    do {
        pthread_mutex_lock(&c->lock);
        more = ss_rings_have(c->io, events, n) || atomic_load(&c->waiting);
        pthread_mutex_unlock(&c->lock);
    } while (!more && ss_clock_ns() < until);
    return more;
}

/* Serves the ports that had frames until they have no more, or others must be asked. */
static struct ss_turn ss_stay_awake(struct ss_ctx *c, struct epoll_event *events, int n,
                                    struct ss_turn turn)
{
    uint64_t until = ss_clock_ns() + SS_AWAKE_NS;
    n = ss_watch_rings(c, events, n);
    while (n && !atomic_load(&c->io->stop) && (turn.busy || ss_linger(c, events, n))
           && ss_clock_ns() < until)
        turn = ss_serve(c, events, n);
    ss_watch_events(c, events, n);
    return turn;
}

/* The data-plane thread: returns 0 after ss_stop, or an errno. */
int ss_run(struct ss_ctx *c)
{
    struct ss_io *io = c->io;
    struct epoll_event events[SS_BATCH];
    struct ss_turn turn = {0};
    int error = 0;
    ss_lock(c);
    ss_links_poll(c);
    ss_unlock(c);
    while (!atomic_load(&io->stop)) {
        int n = epoll_wait(io->epoll, events, SS_BATCH, turn.busy ? 0 : -1);
        if (n < 0 && errno != EINTR) {
            error = errno;
            break;
        }
        turn = ss_serve(c, events, n);
        if (turn.frames >= SS_AWAKE_FRAMES)
            turn = ss_stay_awake(c, events, n, turn);
    }
    ss_lock(c);
    ss_links_run(c, false);
    ss_unlock(c);
    return error;
}

/* Makes ss_run return (1), or prepares for it to be called (0). */
void ss_stop(struct ss_ctx *c, int stop)
{
    atomic_store(&c->io->stop, stop != 0);
    if (stop) {
        eventfd_write(c->io->wake, 1);
        return;
    }
    eventfd_t ignored;
    eventfd_read(c->io->wake, &ignored);
    ss_lock(c);
    ss_links_run(c, true);
    ss_unlock(c);
}

static void ss_port_close(struct ss_ctx *c, struct ss_port *port)
{
    ss_flush_ports(c);
    c->io->ports[port->number] = NULL;
    ss_socket_close(&port->socket); /* also leaves the epoll set */
    close(port->claim);
    free(port);
}

/* Binds port `number` to an interface, with a ring of so many places if it is not 0; 0 or -errno.
 * A positive errno says why the kernel gave the port no ring. */
int ss_port_attach(struct ss_ctx *c, uint32_t number, const char *ifname, uint32_t ring_places)
{
    if (number >= SS_MAX_PORTS)
        return -EINVAL;
    struct ss_port *port = calloc(1, sizeof *port);
    if (!port)
        return -ENOMEM;
    int error = ss_socket_open(&port->socket, ifname, ring_places);
    port->claim = -1;
    port->number = number;
    snprintf(port->name, sizeof port->name, "%s", ifname);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    ss_lock(c);
    if (!error && c->io->ports[number])
        error = -EEXIST;
    if (!error && (port->claim = ss_claim(port->socket.index)) < 0)
        error = port->claim;
    if (!error && epoll_ctl(c->io->epoll, EPOLL_CTL_ADD, port->socket.fd, &event))
        error = -errno;
    if (!error) {
        c->io->ports[number] = port;
        error = port->socket.no_ring;
        if (port->socket.sees_own && !c->io->sees_own) {
            c->io->sees_own = true;
            c->io->rx_missing = SS_BATCH;
        }
    }
    ss_unlock(c);
    if (error < 0) {
        ss_socket_close(&port->socket);
        if (port->claim >= 0)
            close(port->claim);
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

/* Adds what the kernel has dropped since the last call because the port's socket was full. */
static void ss_port_count_dropped(struct ss_port *port)
{
    struct tpacket_stats stats;
    socklen_t size = sizeof stats;
    if (!getsockopt(port->socket.fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
        port->rx_dropped += stats.tp_drops;
}

/* rx, rx_bytes, tx, tx_bytes, tx_errors, oversize, rx_dropped of a port. */
int ss_port_stats(struct ss_ctx *c, uint32_t number, uint64_t *out)
{
    if (number >= SS_MAX_PORTS)
        return -EINVAL;
    ss_lock(c);
    struct ss_port *port = c->io->ports[number];
    if (port) {
        ss_port_count_dropped(port);
        const uint64_t values[] = {port->rx,       port->rx_bytes,  port->tx,
                                   port->tx_bytes, port->tx_errors, port->oversize, port->rx_dropped};
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
    io->rx_missing = SS_BATCH;
    io->cpu_tail = &io->cpu_head;
    io->epoll = epoll_create1(EPOLL_CLOEXEC);
    io->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    io->cpu_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    io->link_events = ss_link_events_open(io->epoll);
    return io->epoll >= 0 && io->wake >= 0 && io->cpu_event >= 0
           && !epoll_ctl(io->epoll, EPOLL_CTL_ADD, io->wake, &event) && ss_links_open(c);
}

static void ss_io_close(struct ss_ctx *c)
{
    struct ss_io *io = c->io;
    for (uint32_t i = 0; i < SS_MAX_PORTS; i++)
        if (io->ports[i])
            ss_port_close(c, io->ports[i]);
    ss_links_close(c);
    if (io->link_events >= 0)
        close(io->link_events);
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
