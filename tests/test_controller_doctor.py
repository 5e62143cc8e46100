"""`libra doctor` on machines that lack one requirement each."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from controller import cli, doctor
from controller.artifacts import StaleArtifact
from mininet_topos.errors import CommandFailed
from mininet_topos.tools import NETWORK_TOOLS

PROGRAMS = (*NETWORK_TOOLS, "unshare", "nsenter", "mount", "cc", "gcc", "true", "as", "ld")


def found(name: str) -> doctor.Check:
    """What is found of one requirement on this machine, as it is now."""
    return next(check for check in doctor.examine() if check.name == name)


@pytest.fixture
def path_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a PATH on which one program is missing."""

    def make(*missing: str) -> None:
        for name in PROGRAMS:
            target = shutil.which(name)
            if target is not None and name not in missing:
                (tmp_path / name).symlink_to(target)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CC", raising=False)

    return make


@pytest.mark.parametrize(
    ("program", "requirement", "package"),
    [
        ("mnexec", "mininet", "mininet"),
        ("ip", "network-tools", "iproute2"),
        ("tc", "network-tools", "iproute2"),
        ("bridge", "network-tools", "iproute2"),
        ("ethtool", "network-tools", "ethtool"),
        ("ifconfig", "network-tools", "net-tools"),
        ("sysctl", "network-tools", "procps"),
        ("unshare", "network-tools", "util-linux"),
        ("nsenter", "network-tools", "util-linux"),
        ("mount", "network-tools", "mount"),
        ("simple_switch_grpc", "bmv2", "p4lang-bmv2"),
        ("p4c-bm2-ss", "p4c", "README"),
    ],
)
def test_a_missing_program_is_named_with_its_package(
    program: str, requirement: str, package: str, path_without: Callable[[str], None]
) -> None:
    """Each program that an emulation calls, missing from PATH."""
    path_without(program)
    check = found(requirement)
    assert not check.ok
    assert package in check.fix
    if requirement == "network-tools":
        assert f"{program} is not on PATH" in check.fix


def test_no_compiler(path_without: Callable[..., None]) -> None:
    """There is none, or it is another program."""
    path_without("cc", "gcc")
    check = found("compiler")
    assert (check.ok, check.found) == (False, "none")
    assert "install gcc or clang" in check.fix


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
def test_a_compiler_without_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler runs, but the C library cannot be included."""
    monkeypatch.setenv("CC", "cc -nostdinc")
    check = found("compiler")
    assert not check.ok
    assert "libc6-dev" in check.fix


def test_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever needs root says so, and nothing is tried."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("root", "namespaces", "links"):
        check = found(name)
        assert not check.ok
        assert "sudo" in check.fix
    assert found("root").found == "user 1000"


@pytest.mark.parametrize(
    ("capability", "requirement", "advice"),
    [
        ("-sys_admin", "namespaces", "--privileged"),
        ("-net_admin", "links", "modprobe veth sch_tbf bridge"),
    ],
)
@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)
def test_a_container_that_forbids_namespaces(
    capability: str, requirement: str, advice: str
) -> None:
    """Root without the capability that namespaces, or links, need."""
    done = subprocess.run(
        [
            *("setpriv", "--bounding-set", capability, "--inh-caps", capability),
            *(sys.executable, "-m", "controller.cli", "doctor", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert not checks[requirement]["ok"]
    assert advice in checks[requirement]["fix"]


@pytest.mark.parametrize(
    ("word", "module"), [("veth", "veth"), ("tbf", "sch_tbf"), ("bridge", "bridge")]
)
def test_a_kernel_without_a_module(word: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of link that an emulation makes, missing."""

    def refuse(argv: list[str], **_: object) -> str:
        if word in argv:
            raise CommandFailed("Operation not supported")
        return ""

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "require_tools", lambda *_: None)
    monkeypatch.setattr(doctor, "run_tool", refuse)
    check = found("links")
    assert not check.ok
    assert check.found == f"the kernel does not make {module}"
    assert f"modprobe {module};" in check.fix


@pytest.mark.parametrize(
    ("system", "release", "advice"),
    [("Darwin", "24.1.0", "Linux"), ("Linux", "3.10.0-1160.el7", "kernel from 4.3")],
)
def test_another_kernel(
    system: str, release: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another system, or a kernel that is too old."""
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: release)
    check = found("kernel")
    assert not check.ok
    assert advice in check.fix


def test_a_processor_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its kernel is."""
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(maxsize=(1 << 31) - 1))
    check = found("kernel")
    assert not check.ok
    assert "64-bit" in check.fix


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is named with the way to use another one."""
    Version = namedtuple("Version", "major minor")
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=Version(3, 9), maxsize=1 << 62))
    assert "PYTHON=python3.11" in found("python").fix


def test_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and does not count as a failure."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    check = found("cores")
    assert (check.ok, check.required) == (False, False)


def test_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hard limit below what a run opens."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 64))
    check = found("files")
    assert not check.ok
    assert "ulimit" in check.fix


@pytest.mark.parametrize(("port", "whose"), [(9559, "P4Runtime"), (9560, "job API")])
def test_a_port_that_is_taken(port: int, whose: str) -> None:
    """Whoever listens there is to be found by the command that is named."""
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            pytest.skip(f"port {port} is taken")
        listener.listen()
        check = found("ports")
    assert not check.ok
    assert f"{port} ({whose}" in check.found
    assert "ss -ltnp" in check.fix


def test_a_wrong_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date before that of the program's own files; a clock with coarse steps."""
    monkeypatch.setattr(time, "time", lambda: 1e9)
    check = found("clock")
    assert not check.ok
    assert "2001-09-09" in check.found
    monkeypatch.setattr(time, "get_clock_info", lambda _name: SimpleNamespace(resolution=0.01))
    assert "clocksource" in found("clock").fix


def test_stale_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that have changed since they were compiled."""

    def stale(_self: object) -> None:
        raise StaleArtifact("libra: run `make p4`")

    monkeypatch.setattr(doctor.Artifact, "require_current", stale)
    assert "make p4" in found("programs").fix


def test_every_requirement_has_a_fix_in_the_json(
    path_without: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1, fields as documented, and a fix exactly where something is missing."""
    path_without("tc")
    monkeypatch.setattr(sys, "argv", ["libra", "doctor", "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert (told["schema"], told["ok"]) == (1, False)
    assert [check["name"] for check in told["checks"]] == [
        requirement.name for requirement in doctor.REQUIREMENTS
    ]
    for check in told["checks"]:
        assert set(check) == {"name", "needed_for", "required", "ok", "found", "fix"}
        assert check["ok"] is (check["fix"] == "")


def test_people_read_what_to_do(
    path_without: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A table, and below it a line for each thing that is missing."""
    path_without("mnexec")
    monkeypatch.setattr(sys, "argv", ["libra", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr().out
    assert ended.value.code == 1
    assert "mininet: get it from Debian and Ubuntu: apt install mininet\n" in out


def test_completion(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The script asks `libra` itself, which knows its commands; other shells are refused."""
    monkeypatch.setattr(sys, "argv", ["libra", "completion", "bash"])
    with pytest.raises(SystemExit):
        cli.main()
    script = capsys.readouterr().out
    bash = shutil.which("bash")
    if bash is not None:
        subprocess.run([bash, "-n"], input=script, text=True, check=True, timeout=60)
    assert "_LIBRA_COMPLETE=complete_bash" in script
    monkeypatch.setattr(sys, "argv", ["libra", "completion", "bash", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    told = json.loads(capsys.readouterr().out)
    assert told == {"schema": 1, "shell": "bash", "script": script.removesuffix("\n")}
    monkeypatch.setattr(sys, "argv", ["libra", "completion", "cmd"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "allowed are bash, zsh, fish" in capsys.readouterr().err


def test_words_are_completed() -> None:
    """What a shell asks for is answered with the commands."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'libra'; import controller.cli as c; c.main()",
        ],
        env=os.environ
        | {"_LIBRA_COMPLETE": "complete_bash", "COMP_WORDS": "libra do", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.stdout.split() == ["doctor"]
