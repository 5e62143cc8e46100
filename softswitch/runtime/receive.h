/* How frames come in: from a port's ring, or through the buffer of its socket where the kernel has
 * no rings. */
#ifndef SS_RECEIVE_H
#define SS_RECEIVE_H

#include "link_control.h"

/* The VLAN tag that the kernel has taken out of a frame (type and value), 0 if there was none. */
static uint32_t ss_vlan_tag(uint32_t status, uint16_t type, uint16_t value)
{
    if (!(status & TP_STATUS_VLAN_VALID))
        return 0;
    return (uint32_t)(status & TP_STATUS_VLAN_TPID_VALID ? type : ETH_P_8021Q) << 16 | value;
}

/* Puts a VLAN tag back into its frame, in front of the type. */
static void ss_vlan_restore(struct ss_buf *b, uint32_t tag)
{
    enum { ADDRESSES = 12, TAG = 4 };
    if (!ss_buf_reserve(b, TAG)) {
        b->len += TAG; /* too long to be let in */
        return;
    }
    memmove(b->start - TAG, b->start, ADDRESSES);
    b->start -= TAG;
    b->len += TAG;
    ss_st32(b->start + ADDRESSES, tag);
}

/* Processes a frame whose b->len bytes are in the buffer. Takes the buffer. */
static void ss_port_take(struct ss_ctx *c, struct ss_port *port, struct ss_buf *b, uint32_t tag)
{
    if (__builtin_expect(tag != 0, 0))
        ss_vlan_restore(b, tag);
    if (__builtin_expect(b->len > SS_MAX_PACKET, 0)) {
        port->oversize++;
        ss_drop(c, SS_rx_oversize);
        ss_buf_free(c, b);
        return;
    }
    b->ingress_length = b->len;
    b->port = port->number;
    b->instance = SS_NORMAL;
    port->rx++;
    port->rx_bytes += b->len;
    if (__builtin_expect(c->io->hooked, 0))
        ss_arrive_hooked(c, b);
    else
        ss_process(c, b);
}

/* Rings */

static ssize_t ss_recv_whole(struct ss_port *port, struct ss_buf *b)
{
    return recv(port->socket.fd, b->start, SS_MAX_PACKET, MSG_DONTWAIT | MSG_TRUNC);
}

/* Fills b from the ring, or from the socket if the frame was too long for its place: b->len is its
 * length, which may be more than there is room for. False if the kernel has lost it. */
static bool ss_ring_read(struct ss_port *port, const struct tpacket2_hdr *h, struct ss_buf *b)
{
    if (__builtin_expect(h->tp_status & TP_STATUS_COPY, 0)) {
        ssize_t len = ss_recv_whole(port, b);
        if (len < 0) /* that the interface went down is said first, once; the frame is still there */
            len = ss_recv_whole(port, b);
        b->len = len < 0 ? 0 : (uint32_t)len;
        return len >= 0;
    }
    if (h->tp_len > h->tp_snaplen)
        return false;
    memcpy(b->start, ss_ring_data(h), h->tp_snaplen);
    b->len = h->tp_len;
    return true;
}

static int ss_ring_receive(struct ss_ctx *c, struct ss_port *port)
{
    struct ss_ring *r = &port->socket.ring;
    const struct tpacket2_hdr *h, *later;
    int n = 0;
    for (; n < SS_BATCH && (h = ss_ring_frame(r, 0)); n++) {
        later = ss_ring_frame(r, SS_HINT_AHEAD);
        if (later && later->tp_snaplen == c->hint_length)
            ss_hint(c, ss_ring_data(later), c->hint_length + SS_SLACK);
        struct ss_buf *b = ss_buf_new(c);
        if (!b)
            break;
        bool whole = ss_ring_read(port, h, b);
        bool own = c->io->sees_own && ss_ring_from(h)->sll_pkttype == PACKET_OUTGOING;
        uint32_t tag = ss_vlan_tag(h->tp_status, h->tp_vlan_tpid, h->tp_vlan_tci);
        ss_ring_release(r);
        if (__builtin_expect(whole && !own, 1)) {
            ss_port_take(c, port, b, tag);
            continue;
        }
        port->rx_dropped += !own;
        ss_buf_free(c, b);
    }
    return n;
}

/* Messages */

/* Gives every receive slot a buffer; returns how many slots are ready. */
static unsigned ss_rx_prepare(struct ss_ctx *c)
{
    struct ss_io *io = c->io;
    for (unsigned n = 0; n < io->rx_missing; n++) {
        if (!io->rx_bufs[n] && !(io->rx_bufs[n] = ss_buf_new(c)))
            return n;
        io->rx_iovs[n] = (struct iovec){io->rx_bufs[n]->start, SS_MAX_PACKET};
        io->rx_msgs[n].msg_hdr = (struct msghdr){.msg_iov = &io->rx_iovs[n],
                                                 .msg_iovlen = 1,
                                                 .msg_control = &io->rx_tags[n],
                                                 .msg_controllen = sizeof io->rx_tags[n]};
        if (io->sees_own) {
            io->rx_msgs[n].msg_hdr.msg_name = &io->rx_from[n];
            io->rx_msgs[n].msg_hdr.msg_namelen = sizeof io->rx_from[n];
        }
    }
    io->rx_missing = 0;
    return SS_BATCH;
}

/* The VLAN tag of a frame, from what was received beside it. */
static uint32_t ss_message_tag(struct msghdr *message)
{
    const struct cmsghdr *part = CMSG_FIRSTHDR(message);
    struct tpacket_auxdata about;
    if (!part || part->cmsg_level != SOL_PACKET || part->cmsg_type != PACKET_AUXDATA)
        return 0;
    memcpy(&about, CMSG_DATA(part), sizeof about);
    return ss_vlan_tag(about.tp_status, about.tp_vlan_tpid, about.tp_vlan_tci);
}

static int ss_messages_receive(struct ss_ctx *c, struct ss_port *port)
{
    struct ss_io *io = c->io;
    int n = recvmmsg(port->socket.fd, io->rx_msgs, ss_rx_prepare(c), MSG_DONTWAIT, NULL);
    if (n <= 0)
        return 0;
    if (io->rx_missing < (unsigned)n)
        io->rx_missing = (unsigned)n;
    for (int i = 0; i < n; i++) {
        struct mmsghdr *msg = &io->rx_msgs[i];
        if (i + SS_HINT_AHEAD < n && msg[SS_HINT_AHEAD].msg_len == c->hint_length)
            ss_hint(c, io->rx_bufs[i + SS_HINT_AHEAD]->start, c->hint_length + SS_SLACK);
        if (io->sees_own && io->rx_from[i].sll_pkttype == PACKET_OUTGOING)
            continue;
        struct ss_buf *b = io->rx_bufs[i];
        io->rx_bufs[i] = NULL;
        b->len = msg->msg_hdr.msg_flags & MSG_TRUNC ? SS_MAX_PACKET + 1 : msg->msg_len;
        ss_port_take(c, port, b, ss_message_tag(&msg->msg_hdr));
    }
    return n;
}

/* Processes the frames that a port has, at most a batch; returns how many there were. */
static int ss_port_receive(struct ss_ctx *c, struct ss_port *port)
{
    return port->socket.ring.map ? ss_ring_receive(c, port) : ss_messages_receive(c, port);
}

#endif
