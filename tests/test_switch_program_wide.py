"""libra.p4 with 16 and 64 lanes: what depends on lanes, by the tests of the program with 32."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from controller.artifacts import PROGRAMS, Artifact, program_with
from tests import test_switch_pairs as pairs
from tests import test_switch_program as narrow
from tests.switch_under_test import F, SwitchUnderTest, embedded

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]


def test_artifacts_differ_in_their_lanes_alone() -> None:
    """Each is what `make p4` names it, from the same sources, of the same sizes otherwise."""
    found = {name: Artifact.load(name) for name in PROGRAMS}
    assert {name: artifact.layout.lanes for name, artifact in found.items()} == PROGRAMS
    assert len({artifact.sources_sha256 for artifact in found.values()}) == 1
    sizes = {(a.layout.rows, a.layout.window, a.layout.program) for a in found.values()}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    "test",
    [
        narrow.test_every_exponent_and_sign,
        narrow.test_sums_of_random_gradients,
        narrow.test_unused_lanes_stay_untouched,
        pairs.test_every_mask,
        pairs.test_every_exponent,
        pairs.test_a_run_of_paired_rows,
        pairs.test_what_is_refused,
    ],
    ids=lambda test: test.__name__,
)
@pytest.mark.parametrize("lanes", [16, 64])
def test_other_lanes(lanes: int, test: Callable[[SwitchUnderTest], None]) -> None:
    """Bit for bit against the numpy reference."""
    with embedded(Artifact.load(program_with(lanes)), F) as switch:
        assert switch.artifact.layout.lanes == lanes
        test(switch)
