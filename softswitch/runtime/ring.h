/* Receive rings: the kernel copies arriving frames into memory that it shares with the switch.
 *
 * A frame leaves its place in the ring as soon as its turn comes: it is copied into a buffer, which
 * costs less than can be measured and lets packets wait elsewhere as long as they like. Longer
 * frames than a place has room for come whole through the socket's buffer, one for each place that
 * is marked so. When all places are taken the kernel drops and counts. */
#ifndef SS_RING_H
#define SS_RING_H

#include <errno.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bits.h"

enum {
    SS_RING_PLACE = 2048, /* bytes: a header of the kernel's and a frame of up to 1,982 bytes */
    SS_RING_BLOCK = 1 << 16, /* what the kernel allocates in one piece */
    SS_RING_PER_BLOCK = SS_RING_BLOCK / SS_RING_PLACE,
    SS_RING_GUARD = 4096, /* readable bytes after the last place: hints read past a frame's end */
};

struct ss_ring {
    uint8_t *map; /* NULL: there is no ring */
    size_t mapped;
    uint32_t places, next;
};

static struct tpacket2_hdr *ss_ring_place(const struct ss_ring *r, uint32_t ahead)
{
    uint32_t i = r->next + ahead;
    return (struct tpacket2_hdr *)(r->map + (size_t)(i < r->places ? i : i - r->places) * SS_RING_PLACE);
}

/* The frame in a place that belongs to the switch, NULL if the kernel has not filled it yet. */
static const struct tpacket2_hdr *ss_ring_frame(const struct ss_ring *r, uint32_t ahead)
{
    const struct tpacket2_hdr *h = ss_ring_place(r, ahead);
    return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? h : NULL;
}

static const uint8_t *ss_ring_data(const struct tpacket2_hdr *h)
{
    return (const uint8_t *)h + h->tp_mac;
}

static const struct sockaddr_ll *ss_ring_from(const struct tpacket2_hdr *h)
{
    return (const void *)((const uint8_t *)h + TPACKET_ALIGN(sizeof *h));
}

/* Gives the next place back to the kernel. */
static void ss_ring_release(struct ss_ring *r)
{
    __atomic_store_n(&ss_ring_place(r, 0)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    if (++r->next == r->places)
        r->next = 0;
}

static void *ss_ring_map(int fd, size_t size)
{
    void *map = mmap(NULL, size + SS_RING_GUARD, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (mmap(map, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
        return map;
    munmap(map, size + SS_RING_GUARD);
    return NULL;
}

/* Gives a socket that is not bound yet a ring of at least `places`; 0, or an errno and no ring. */
static int ss_ring_open(struct ss_ring *r, int fd, uint32_t places)
{
    int version = TPACKET_V2, on = 1;
    uint32_t blocks = (places + SS_RING_PER_BLOCK - 1) / SS_RING_PER_BLOCK;
    struct tpacket_req request = {.tp_block_size = SS_RING_BLOCK,
                                  .tp_block_nr = blocks,
                                  .tp_frame_size = SS_RING_PLACE,
                                  .tp_frame_nr = blocks * SS_RING_PER_BLOCK};
    *r = (struct ss_ring){0};
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version)
        || setsockopt(fd, SOL_PACKET, PACKET_COPY_THRESH, &on, sizeof on)
        || setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request))
        return errno;
    size_t size = (size_t)blocks * SS_RING_BLOCK;
    r->map = ss_ring_map(fd, size);
    if (!r->map) {
        int error = errno;
        request = (struct tpacket_req){0};
        setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request);
        return error;
    }
    r->mapped = size + SS_RING_GUARD;
    r->places = request.tp_frame_nr;
    return 0;
}

static void ss_ring_close(struct ss_ring *r)
{
    if (r->map)
        munmap(r->map, r->mapped);
    r->map = NULL;
}

#endif
