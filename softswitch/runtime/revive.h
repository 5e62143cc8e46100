/* Ports whose interface was deleted and made again.
 *
 * A packet socket is bound to an interface, not to its name: it stays dead when another interface
 * gets the name. The kernel tells when interfaces come and go; a port whose name belongs to another
 * interface than its socket then gets a new socket. */
#ifndef SS_REVIVE_H
#define SS_REVIVE_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>

#include "ports.h"

enum { SS_LINK_EVENTS = UINT32_MAX - 1 }; /* in the epoll set, beside the numbers of ports */

/* A socket that hears of interfaces, or -1: ports then stay dead, as on other kernels. */
static int ss_link_events_open(int epoll)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = SS_LINK_EVENTS};
    if (fd >= 0
        && (bind(fd, (struct sockaddr *)&address, sizeof address)
            || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The interface that a packet socket receives from: none once that has left the namespace. */
static unsigned ss_bound_to(int fd)
{
    struct sockaddr_ll address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) || address.sll_ifindex < 0)
        return 0;
    return (unsigned)address.sll_ifindex;
}

/* Gives a port a socket on the interface that now has its name, if its socket is on none or another.
 * It may have the number of the one before, which the port then has claimed already. */
static void ss_port_revive(struct ss_ctx *c, struct ss_port *port)
{
    unsigned index = if_nametoindex(port->name);
    if (!index || index == ss_bound_to(port->socket.fd))
        return;
    bool known = index == port->socket.index;
    struct ss_socket fresh;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = port->number};
    int claim = known ? port->claim : ss_claim(index);
    if (claim < 0)
        return; /* the next event tries again */
    if (ss_socket_open(&fresh, port->name, port->socket.ring_places)
        || epoll_ctl(c->io->epoll, EPOLL_CTL_ADD, fresh.fd, &event)) {
        ss_socket_close(&fresh);
        if (!known)
            close(claim);
        return;
    }
    ss_socket_close(&port->socket); /* also leaves the epoll set */
    if (!known)
        close(port->claim);
    port->socket = fresh;
    port->claim = claim;
}

/* Looks at all ports after interfaces have changed; what has changed does not matter. */
static void ss_link_events_take(struct ss_ctx *c)
{
    uint8_t ignored[8192];
    while (recv(c->io->link_events, ignored, sizeof ignored, 0) > 0 || errno == ENOBUFS)
        ;
    for (uint32_t i = 0; i < SS_MAX_PORTS; i++)
        if (c->io->ports[i])
            ss_port_revive(c, c->io->ports[i]);
}

#endif
