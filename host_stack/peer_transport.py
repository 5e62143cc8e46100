"""UDP with one of several servers: each has sockets of its own at the port that all of them use."""

from __future__ import annotations

import select
from collections.abc import Sequence

from host_stack.codec import Bytes
from host_stack.fixedpoint import IntArray
from host_stack.layout import UDP_PORT
from host_stack.transport import BatchTransport, Received, open_group, open_udp


class PeerTransport:
    """A `Transport` that receives from one peer, and what is sent to some groups.

    The kernel tells the peers' datagrams apart, so that threads with a peer each share nothing.
    """

    def __init__(
        self,
        address: str,
        peer: str,
        max_bytes: int,
        groups: Sequence[str] = (),
        *,
        port: int = UDP_PORT,
        beside: bool = False,
    ) -> None:
        """Open the port at `address`; `max_bytes` is the longest datagram expected.

        Raises `BadInput` if the port is taken; `beside` one for another peer it may be.
        """
        sockets = [open_udp(address, port=port, peer=peer, beside=beside)]
        try:
            sockets += [open_group(group, address, port=port) for group in groups]
        except BaseException:
            sockets[0].close()
            raise
        self._parts = [BatchTransport(sock, max_bytes, port) for sock in sockets]
        self._epoll = select.epoll()
        for part in self._parts:
            self._epoll.register(part.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """A descriptor that is readable when a datagram of the peer or of a group waits."""
        return self._epoll.fileno()

    def sockets(self) -> Sequence[int]:
        """Of the peer and of the groups."""
        return [part.fileno() for part in self._parts]

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Send the leading packets of uint8[n, stride]; return how many the kernel took."""
        return self._parts[0].send(batch, lengths, destination)

    def receive(self) -> Received:
        """The datagrams that wait: of the peer, and where it has sent none, of the groups."""
        for part in self._parts[:-1]:
            received = part.receive()
            if len(received):
                return received
        return self._parts[-1].receive()

    def close(self) -> None:
        """Close all descriptors."""
        self._epoll.close()
        for part in self._parts:
            part.close()
