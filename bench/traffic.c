/* A load generator and a bare reflector over AF_PACKET, both with batched system calls.
 *
 * The generator keeps a window of frames in flight on each of its interfaces and sends another one
 * for every answer. It knows nothing of the frames but where a 32-bit counter is, so that no two
 * are equal, and where the Internet checksum that covers it is. The reflector sends the start of
 * each frame back with its link addresses swapped: whatever a switch does, this is the part that
 * the packet sockets take. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum {
    BATCH = 64,
    MAX_FRAME = 10240,
    SOCKET_BUFFER = 32 << 20,
    LOST_AFTER_MS = 500, /* without an answer, what is in flight is lost */
};

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A packet socket on an interface, or -errno. */
int bench_open(const char *ifname)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1, size = SOCKET_BUFFER;
    if (fd < 0)
        return -errno;
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(ifname)};
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address)) {
        int error = address.sll_ifindex ? errno : ENODEV;
        close(fd);
        return -error;
    }
    return fd;
}

/* One interface of the generator: `count` frames of `size` bytes, sent one after another. */
struct flow {
    int32_t fd;
    uint32_t count, size, window;
    uint8_t *frames;
    uint32_t counter_at, checksum_at; /* offsets in a frame; 0: there is none */
    uint32_t counter, next, in_flight;
    uint32_t answer_size; /* frames of any other size are strange */
    uint64_t sent, answered, lost, strange;
};

/* RFC 1624: the checksum after a 16-bit word that it covers has changed. */
static void update_checksum(uint8_t *at, uint16_t before, uint16_t after)
{
    uint16_t checksum;
    memcpy(&checksum, at, 2);
    uint32_t sum = (uint16_t)~checksum + (uint32_t)(uint16_t)~before + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    checksum = (uint16_t)~sum;
    memcpy(at, &checksum, 2);
}

static void write_counter(const struct flow *f, uint8_t *frame)
{
    uint32_t counter = htonl(f->counter);
    uint16_t before[2], after[2];
    memcpy(before, frame + f->counter_at, 4);
    memcpy(after, &counter, 4);
    memcpy(frame + f->counter_at, &counter, 4);
    for (int i = 0; f->checksum_at && i < 2; i++)
        update_checksum(frame + f->checksum_at, before[i], after[i]);
}

/* Sends up to a batch; false when the interface refuses for good. */
static bool flow_send(struct flow *f)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    uint32_t n = f->window - f->in_flight;
    n = n < BATCH ? n : BATCH;
    n = n < f->count ? n : f->count; /* a frame is rewritten once it has been sent */
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *frame = f->frames + (uint64_t)((f->next + i) % f->count) * f->size;
        if (f->counter_at) {
            write_counter(f, frame);
            f->counter++;
        }
        parts[i] = (struct iovec){frame, f->size};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
    }
    for (uint32_t done = 0; done < n;) {
        int sent = sendmmsg(f->fd, messages + done, n - done, 0);
        if (sent < 0 && (errno == EINTR || errno == ENOBUFS))
            continue;
        if (sent < 0)
            return false;
        done += (uint32_t)sent;
    }
    f->next = (f->next + n) % f->count;
    f->in_flight += n;
    f->sent += n;
    return true;
}

/* Takes the answers that are there; returns how many. */
static uint32_t flow_receive(struct flow *f)
{
    static _Thread_local uint8_t room[BATCH][128];
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){room[i], sizeof room[i]};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
    }
    int n = recvmmsg(f->fd, messages, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
    uint32_t answers = 0;
    for (int i = 0; i < n; i++) {
        if (messages[i].msg_len == f->answer_size && f->in_flight) {
            f->in_flight--;
            answers++;
        } else {
            f->strange++;
        }
    }
    f->answered += answers;
    return answers;
}

/* Keeps the windows of all flows full for `duration_ns`, then waits for what is in flight.
 * Returns the nanoseconds from the first frame to the last answer, or -errno. */
int64_t bench_generate(struct flow *flows, uint32_t count, uint64_t duration_ns)
{
    struct pollfd *polled = calloc(count, sizeof *polled);
    if (!polled)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = flows[i].fd, .events = POLLIN};
    uint64_t begin = clock_ns(), end = begin, waiting = 1;
    int64_t result = 0;
    while (waiting && !result) {
        bool more = clock_ns() - begin < duration_ns, progress = false;
        waiting = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (flow_receive(&flows[i])) {
                progress = true;
                end = clock_ns();
            }
            if (more && flows[i].in_flight < flows[i].window && !flow_send(&flows[i]))
                result = -errno;
            waiting += flows[i].in_flight;
        }
        if (!progress && waiting && !poll(polled, count, LOST_AFTER_MS)) {
            for (uint32_t i = 0; i < count; i++) {
                flows[i].lost += flows[i].in_flight;
                flows[i].in_flight = 0;
            }
            waiting = more;
        }
    }
    free(polled);
    return result ? result : (int64_t)(end - begin);
}

/* Answers frames with their first `answer_size` bytes until *stop is set; 0 or an errno. */
int bench_reflect(int fd, uint32_t answer_size, const _Atomic int *stop)
{
    uint8_t(*room)[MAX_FRAME] = malloc(sizeof(uint8_t[BATCH][MAX_FRAME]));
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (!room)
        return ENOMEM;
    while (!atomic_load(stop)) {
        for (int i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){room[i], MAX_FRAME};
            messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
        }
        int n = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
        if (n <= 0)
            poll(&polled, 1, 100);
        for (int i = 0; i < n; i++) {
            uint8_t mac[6];
            memcpy(mac, room[i], 6);
            memcpy(room[i], room[i] + 6, 6);
            memcpy(room[i] + 6, mac, 6);
            if (messages[i].msg_len > answer_size)
                messages[i].msg_len = answer_size;
            parts[i].iov_len = messages[i].msg_len;
        }
        for (int done = 0; done < n;) {
            int sent = sendmmsg(fd, messages + done, (unsigned)(n - done), MSG_DONTWAIT);
            done += sent > 0 ? sent : 1;
        }
    }
    free(room);
    return 0;
}
