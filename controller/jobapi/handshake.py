"""Why a controller and a client of it do not come to terms over TLS.

gRPC says of all such failures that time ran out or that a connection was lost. So another one is
made here, by which a refusal of either side can be told from a machine that cannot be reached.
"""

from __future__ import annotations

import socket
import ssl

from controller.tls import ClientTls

PROBE_S = 3.0

_NEEDED = "it speaks TLS: name a folder with ca.pem by --tls or LIBRA_TLS"


def tls_fault(target: str, tls: ClientTls | None) -> str | None:
    """What keeps a client from HOST:PORT: its TLS, or that it has none.

    None where nothing is found: both agree, or there is no connection at all. The files must be
    readable, and be PEM.
    """
    if target.startswith("unix:"):
        return None
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    try:
        context = _anything() if tls is None else _context(tls)
    except ssl.SSLError:
        return "certificate and key of this client do not fit together, or a file is damaged"
    try:
        with socket.create_connection((host, int(port)), PROBE_S) as plain:
            return _meet(plain, context, host, tls)
    except OSError:
        return None


def _context(tls: ClientTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    context.set_alpn_protocols(["h2"])
    return context


def _anything() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _meet(
    plain: socket.socket, context: ssl.SSLContext, host: str, tls: ClientTls | None
) -> str | None:
    name = host if tls is None or not tls.name else tls.name
    try:
        with context.wrap_socket(plain, server_hostname=name) as secure:
            # In TLS 1.3 a server looks at a certificate after the handshake: it then speaks
            # HTTP/2, or ends the connection.
            is_taken = tls is None or secure.recv(1) != b""
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not one that is trusted here: {error.verify_message}"
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            return None if tls is None else "it has no TLS: leave --tls and LIBRA_TLS away"
        is_taken = False
    except ConnectionResetError:
        is_taken = False
    if tls is None:
        return _NEEDED
    if is_taken:
        return None
    if tls.cert is None:
        return f"it asks for a certificate: cert.pem and key.pem are not in {tls.ca.parent}"
    return f"it does not take {tls.cert}, which is of another authority than it knows, or too old"
