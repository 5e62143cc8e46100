"""Artifacts: whole, untouched, and made from the sources beside them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from controller import artifacts as module
from controller.artifacts import Artifact, StaleArtifact, sha256, source_files, sources_sha256
from host_stack.errors import BadInput
from tests.host_support import LAYOUT

PROGRAM, P4INFO = b'{"program":"libra.p4"}\n', "pkg_info { arch: 'v1model' }\n"


def committed(folder: Path, **changed: Any) -> Path:
    """An artifact in `folder`, with some fields of its build file changed."""
    (folder / "libra.json").write_bytes(PROGRAM)
    (folder / "libra.p4info.txtpb").write_text(P4INFO)
    build = {
        "compiler": "p4c-bm2-ss 1.2.4.1",
        "sources_sha256": sources_sha256(),
        "layout": asdict(LAYOUT),
        "artifacts": {
            "libra.json": sha256(PROGRAM),
            "libra.p4info.txtpb": sha256(P4INFO.encode()),
        },
    } | changed
    (folder / "libra.build.json").write_text(json.dumps(build))
    return folder


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small source folder in the place of the real one."""
    folder = tmp_path / "p4src"
    (folder / "include").mkdir(parents=True)
    (folder / "libra.p4").write_text('#include <v1model.p4>\n#include "include/lane.p4"\n')
    (folder / "include" / "lane.p4").write_text("control Lane() { }\n")
    monkeypatch.setattr(module, "SOURCE_DIR", folder)
    return folder


def test_load(tmp_path: Path, sources: Path) -> None:
    """What the compiler made is read back, and is current."""
    artifact = Artifact.load("libra", committed(tmp_path))
    assert artifact.device_config == PROGRAM
    assert artifact.p4info == P4INFO
    assert artifact.layout == LAYOUT
    artifact.require_current()


@pytest.mark.parametrize("ending", ["json", "p4info.txtpb"])
def test_a_tampered_file(ending: str, tmp_path: Path) -> None:
    """A file that is not the one that the compiler made is named."""
    committed(tmp_path)
    path = tmp_path / f"libra.{ending}"
    path.write_bytes(path.read_bytes().replace(b"libra", b"Libra").replace(b"arch", b"Arch"))
    with pytest.raises(StaleArtifact, match=rf"libra\.{ending} is not the file"):
        Artifact.load("libra", tmp_path)


@pytest.mark.parametrize("ending", ["json", "p4info.txtpb", "build.json"])
def test_a_missing_file(ending: str, tmp_path: Path) -> None:
    """A program that is not whole is no program."""
    committed(tmp_path)
    (tmp_path / f"libra.{ending}").unlink()
    with pytest.raises(BadInput, match="compiled program"):
        Artifact.load("libra", tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"layout": {"lanes": 32}},
        {"layout": asdict(LAYOUT) | {"lanes": "32"}},
        {"layout": None},
        {"artifacts": {}},
        {"artifacts": ["libra.json"]},
    ],
)
def test_a_hostile_build_file(changed: dict[str, Any], tmp_path: Path) -> None:
    """A build file that does not describe the program is refused."""
    with pytest.raises(BadInput):
        Artifact.load("libra", committed(tmp_path, **changed))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "\0"])
def test_what_is_no_build_file(text: str, tmp_path: Path) -> None:
    """Anything else in its place."""
    committed(tmp_path)
    (tmp_path / "libra.build.json").write_text(text)
    with pytest.raises(BadInput, match="compiled program"):
        Artifact.load("libra", tmp_path)


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_stale_sources(change: str, tmp_path: Path, sources: Path) -> None:
    """Any change of the sources makes the artifact stale; the error says how to mend it."""
    artifact = Artifact.load("libra", committed(tmp_path))
    lane = sources / "include" / "lane.p4"
    if change == "edit":
        lane.write_text("control Lane() {  }\n")
    elif change == "add":
        lane.write_text('#include "more.p4"\n' + lane.read_text())
        (sources / "include" / "more.p4").write_text("")
    elif change == "remove":
        lane.unlink()
    else:
        lane.rename(sources / "include" / "line.p4")
    with pytest.raises(StaleArtifact, match="make p4"):
        artifact.require_current()


def test_what_is_no_source_does_not_matter(tmp_path: Path, sources: Path) -> None:
    """Other files beside the sources change nothing."""
    artifact = Artifact.load("libra", committed(tmp_path))
    (sources / "README.md").write_text("words")
    (sources / "include" / "lane.p4~").write_text("an editor's copy")
    (sources / "include" / "other.p4").write_text("of another program")
    artifact.require_current()


def test_contents_do_not_move_between_files(sources: Path) -> None:
    """The hash covers names and limits of files, not only their joint contents."""
    before = sources_sha256()
    (sources / "include" / "lane.p4").write_text("")
    program = 'control Lane() { }\n#include <v1model.p4>\n#include "include/lane.p4"\n'
    (sources / "libra.p4").write_text(program)
    assert sources_sha256() != before


def test_the_real_sources_are_found() -> None:
    """The program and its includes are what is hashed."""
    names = [path.relative_to(module.SOURCE_DIR).as_posix() for path in source_files()]
    assert "libra.p4" in names
    assert "include/lane.p4" in names


def test_committed_artifacts_are_current() -> None:
    """The check that fails when sources and artifacts disagree."""
    built = sorted(module.BUILD_DIR.glob("*.build.json"))
    if not built:
        pytest.skip("no compiled programs in p4src/build; `make p4` makes them")
    for path in built:
        Artifact.load(path.name.removesuffix(".build.json")).require_current()
