"""TLS and mutual TLS, with plain gRPC, with finsy and on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import finsy
import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from softswitch.errors import BadCertificate
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority, Pair, needs_openssl
from tests.p4rt_support import JSON_PATH, P4INFO_PATH, TIMEOUT_S
from tests.test_softswitch_cli import fails, run, serving

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = needs_openssl


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return an authority of this module's own."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_pair(authority: Authority) -> Pair:
    """Return the certificate of the switch."""
    return authority.issue("switch")


@pytest.fixture(scope="module")
def client_pair(authority: Authority) -> Pair:
    """Return the certificate of a controller."""
    return authority.issue("controller")


@pytest.fixture
def mutual(p4rt_cache: Path, authority: Authority, server_pair: Pair) -> Iterator[P4RuntimeServer]:
    """Yield a switch that serves clients with a certificate only."""
    tls = TlsFiles(server_pair.cert, server_pair.key, authority.cert)
    with P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache, tls=tls) as server:
        yield server


def version(address: str, credentials: grpc.ChannelCredentials | None) -> str:
    """Ask a switch for the version of its API."""
    channel = (
        grpc.insecure_channel(address)
        if credentials is None
        else grpc.secure_channel(address, credentials)
    )
    with channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        reply = stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT_S)
        return str(reply.p4runtime_api_version)


def client_credentials(ca: Path, pair: Pair | None = None) -> grpc.ChannelCredentials:
    """Return what a client shows and trusts."""
    if pair is None:
        return grpc.ssl_channel_credentials(ca.read_bytes())
    return grpc.ssl_channel_credentials(
        ca.read_bytes(), pair.key.read_bytes(), pair.cert.read_bytes()
    )


def test_tls(p4rt_cache: Path, authority: Authority, server_pair: Pair) -> None:
    """Clients that trust the authority are served, without a certificate of their own."""
    tls = TlsFiles(server_pair.cert, server_pair.key)
    with P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache, tls=tls) as server:
        assert version(server.address, client_credentials(authority.cert)).startswith("1.4")
        with pytest.raises(grpc.RpcError) as caught:
            version(server.address, None)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_mutual_tls(
    mutual: P4RuntimeServer, authority: Authority, client_pair: Pair, tmp_path: Path
) -> None:
    """Only a certificate of the authority opens the door."""
    assert version(mutual.address, client_credentials(authority.cert, client_pair))
    stranger = Authority(tmp_path, "stranger").issue("controller")
    for credentials in (
        None,
        client_credentials(authority.cert),
        client_credentials(authority.cert, stranger),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            version(mutual.address, credentials)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.compiler
def test_finsy_with_mutual_tls(
    mutual: P4RuntimeServer, authority: Authority, client_pair: Pair
) -> None:
    """Finsy connects with its certificate, installs the pipeline and writes; without, it cannot."""

    def options(pair: Pair | None) -> finsy.SwitchOptions:
        return finsy.SwitchOptions(
            p4info=P4INFO_PATH,
            p4blob=JSON_PATH,
            channel_credentials=finsy.GRPCCredentialsTLS(
                cacert=authority.cert,
                cert=pair.cert if pair else None,
                private_key=pair.key if pair else None,
            ),
            fail_fast=True,
        )

    async def main() -> None:
        async with finsy.Switch("s1", mutual.address, options(client_pair)) as switch:
            entry = finsy.P4TableEntry(
                "l2",
                match=finsy.P4TableMatch(dst=1),
                action=finsy.P4TableAction("forward", port=1),
            )
            await switch.insert([entry])
            assert [found async for found in switch.read(finsy.P4TableEntry("l2"))] == [entry]
        with pytest.raises(finsy.P4ClientError, match="UNAVAILABLE"):
            async with finsy.Switch("s1", mutual.address, options(None)):
                pass

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


@pytest.mark.compiler
def test_command_line(authority: Authority, server_pair: Pair, client_pair: Pair) -> None:
    """The three options are all that mutual TLS needs."""
    files = ("--tls-cert", server_pair.cert, "--tls-key", server_pair.key)
    with serving(*files, "--tls-client-ca", authority.cert) as (_, ready):
        assert version(ready["grpc"], client_credentials(authority.cert, client_pair))
        with pytest.raises(grpc.RpcError):
            version(ready["grpc"], client_credentials(authority.cert))


def test_bad_files(authority: Authority, server_pair: Pair, client_pair: Pair) -> None:
    """Each file that cannot be used is named, with what is wrong."""
    missing = server_pair.cert.with_name("none.pem")
    encrypted = authority.encrypted(server_pair, "secret")
    junk = server_pair.cert.with_name("junk.pem")
    junk.write_text("not PEM\n")
    cases = (
        (TlsFiles(missing, server_pair.key), "cannot read the certificate .*none.pem"),
        (TlsFiles(server_pair.cert, missing), "cannot read the private key .*none.pem"),
        (TlsFiles(junk, server_pair.key), "junk.pem holds no certificate"),
        (TlsFiles(server_pair.key, server_pair.key), "switch.key holds no certificate"),
        (TlsFiles(server_pair.cert, junk), "junk.pem holds no private key"),
        (TlsFiles(server_pair.cert, server_pair.cert), "switch.pem holds no private key"),
        (TlsFiles(server_pair.cert, client_pair.key), "controller.key: .* not the one of"),
        (TlsFiles(server_pair.cert, encrypted), "switch.enc: the private key is encrypted"),
        (TlsFiles(server_pair.cert, server_pair.key, missing), "clients' authority .*none.pem"),
        (TlsFiles(server_pair.cert, server_pair.key, junk), "junk.pem holds no certificate"),
    )
    for files, words in cases:
        with pytest.raises(BadCertificate, match=words):
            files.credentials()


@pytest.mark.compiler
def test_wrong_usage(server_pair: Pair) -> None:
    """Options that do not go together are refused, bad files before anything starts."""
    cert, key = ("--tls-cert", server_pair.cert), ("--tls-key", server_pair.key)
    fails(run("run", *cert), 2, "--tls-cert and --tls-key go together")
    fails(run("run", *key), 2, "--tls-cert and --tls-key go together")
    fails(run("run", "--tls-client-ca", server_pair.cert), 2, "--tls-client-ca needs")
    fails(run("run", *cert, "--tls-key", "/nowhere"), 1, "cannot read the private key /nowhere")
