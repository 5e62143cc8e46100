"""How a controller's address is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.jobapi.channel import ControllerAddress
from controller.tls import ClientTls
from host_stack.errors import BadInput


def test_addresses(tmp_path: Path) -> None:
    """A socket, a port, and a port with the files that the folder of a client has."""
    assert ControllerAddress.parse("unix:/run/x.sock") == ControllerAddress.at_socket(
        Path("/run/x.sock")
    )
    assert ControllerAddress.parse("[::1]:9560") == ControllerAddress("[::1]:9560")
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    with pytest.raises(BadInput, match=r"holds no ca\.pem"):
        ControllerAddress.parse("host:1", tmp_path)
    ca.touch()
    assert ControllerAddress.parse("host:1", tmp_path) == ControllerAddress("host:1", ClientTls(ca))
    given = "abc"
    (tmp_path / "token").write_text(given + "\n")
    assert ControllerAddress.parse("host:1", tmp_path).token == given
    cert.touch()
    key.touch()
    assert ControllerAddress.parse("host:1", tmp_path).tls == ClientTls(ca, cert, key)


@pytest.mark.parametrize("text", ["", "host", "host:", ":9560", "host:port", "/run/x.sock"])
def test_what_is_none(text: str) -> None:
    """It says what is needed."""
    with pytest.raises(BadInput, match="HOST:PORT or unix:PATH is needed"):
        ControllerAddress.parse(text)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """They are named when the connection is made."""
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(BadInput, match=r"ca\.pem holds no certificate of an authority"):
        ControllerAddress.parse("host:1", tmp_path).open()
