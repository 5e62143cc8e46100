"""Programs from the cache: the interface is enough to run them, and damage is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softswitch import programs
from softswitch.dataplane import DataPlane
from softswitch.errors import BadProgram
from softswitch.load import load_program
from softswitch.programs import compile_program, interface

FOLDER = Path(__file__).parent
CONFORMANCE = sorted((FOLDER / "conformance" / "programs").glob("*.json"))
SAMPLES = sorted((FOLDER / "p4").glob("*.json")) + [
    path for path in CONFORMANCE if path.stem != "sources"
]
ROUTER = Path(__file__).parent / "p4" / "softswitch_router.json"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_interface_keeps_what_the_control_plane_sees(path: Path) -> None:
    """Tables, arrays and actions are those of the program; what runs is gone."""
    source = path.read_bytes()
    whole = load_program(source)
    bare = load_program(json.dumps(interface(json.loads(source))).encode())
    for part in (
        *("tables", "headers", "action_profiles", "counter_arrays", "register_arrays"),
        *("meter_arrays", "digests", "value_sets", "field_lists", "errors", "aliases"),
    ):
        assert getattr(bare, part) == getattr(whole, part), part
    assert [(a.name, a.index, a.params) for a in bare.actions] == [
        (a.name, a.index, a.params) for a in whole.actions
    ]
    assert not any(action.primitives for action in bare.actions)
    assert not bare.parse_states or whole.value_sets
    assert not bare.ingress.nodes


@pytest.mark.compiler
def test_a_start_from_the_cache_translates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second start neither translates nor compiles, and its switch does the same."""
    source, frame = ROUTER.read_bytes(), bytes(64)
    with DataPlane.load(source, cache_dir=tmp_path) as switch:
        library, answer = switch.library, switch.inject(1, frame)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("translated again")

    monkeypatch.setattr(programs, "generate", fail)
    monkeypatch.setattr(programs, "build", fail)
    with DataPlane.load(source, cache_dir=tmp_path) as switch:
        assert switch.library == library
        assert switch.inject(1, frame) == answer
        assert switch.program.tables.keys() == load_program(source).tables.keys()


@pytest.mark.compiler
@pytest.mark.parametrize("ending", ["program", "so", "sha256"])
@pytest.mark.parametrize("damage", ["cut", "change", "remove"])
def test_what_is_damaged_is_made_again(ending: str, damage: str, tmp_path: Path) -> None:
    """Whichever file of the cache it is, and whatever happened to it."""
    source = ROUTER.read_bytes()
    _, library = compile_program(source, tmp_path)
    [path] = tmp_path.glob(f"*.{ending}")
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "change":
        path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    else:
        path.unlink()
    program, again = compile_program(source, tmp_path)
    assert again == library
    assert path.exists()
    assert program.ingress.nodes  # translated, not from the cache
    assert not compile_program(source, tmp_path)[0].ingress.nodes


def test_a_bad_program_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    """It is refused each time."""
    for _ in range(2):
        with pytest.raises(BadProgram):
            compile_program(b"{}", tmp_path)
    assert not list(tmp_path.iterdir())
