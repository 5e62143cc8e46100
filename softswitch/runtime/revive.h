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

/* Gives a port a socket on the interface that now has its name, if that is another one. */
static void ss_port_revive(struct ss_ctx *c, struct ss_port *port)
{
    unsigned index = if_nametoindex(port->name);
    if (!index || index == port->index)
        return;
    bool sees_own = false;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = port->number};
    int claim = ss_claim(index);
    int fd = claim < 0 ? claim : ss_socket_open(port->name, &index, &sees_own);
    if (fd < 0 || epoll_ctl(c->io->epoll, EPOLL_CTL_ADD, fd, &event)) {
        if (fd >= 0)
            close(fd);
        if (claim >= 0)
            close(claim);
        return; /* the next event tries again */
    }
    close(port->fd); /* also leaves the epoll set */
    close(port->claim);
    port->fd = fd;
    port->claim = claim;
    port->index = index;
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
