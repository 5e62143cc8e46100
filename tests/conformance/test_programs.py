"""The packet tests of this folder, from compiled programs."""

import json
import os
from pathlib import Path

import pytest

from softswitch.stf.programs import Case, P4Compiler, find_cases
from softswitch.stf.runner import Outcome, run_all, run_case
from tests.conformance.compile import PROGRAMS, SOURCES, source_digest

CASES = find_cases(PROGRAMS, recursive=False)
KNOWN = {"extern-funcs-bmv2"}
"""Tests of p4c's that bmv2 fails too: this one calls a function that is not in the program."""


@pytest.mark.compiler
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_switch_does_what_the_test_says(case: Case, switch_cache: Path, tmp_path: Path) -> None:
    """Every construct of v1model has a program of its own."""
    result = run_case(case, P4Compiler("p4c-bm2-ss", tmp_path), switch_cache)
    assert (result.outcome, result.reasons) == (Outcome.PASSED, ())


def test_compiled_programs_belong_to_their_sources() -> None:
    """`python -m tests.conformance.compile` brings them up to date."""
    digests = {p.stem: source_digest(p) for p in PROGRAMS.glob("*.p4")}
    assert json.loads(SOURCES.read_text())["programs"] == digests
    assert {case.name for case in CASES} == set(digests)
    assert all(case.compiled is not None for case in CASES)


@pytest.mark.p4c
@pytest.mark.compiler
@pytest.mark.timeout(3600)
def test_samples_of_p4c(tmp_path: Path) -> None:
    """Opt-in: P4C_SAMPLES names a folder such as p4c's testdata/p4_16_samples."""
    folder = os.environ.get("P4C_SAMPLES")
    if not folder:
        pytest.skip("P4C_SAMPLES does not name a folder of tests")
    compiler = P4Compiler("p4c-bm2-ss", tmp_path)
    if compiler.version() is None:
        pytest.skip("p4c-bm2-ss is not on PATH")
    cases = find_cases(Path(folder), recursive=False)
    jobs = len(os.sched_getaffinity(0))
    results = list(run_all(cases, compiler, jobs=jobs, timeout_s=600))
    good = (Outcome.PASSED, Outcome.SKIPPED)
    bad = {r.name: r.reasons for r in results if r.outcome not in good and r.name not in KNOWN}
    assert bad == {}
    assert sum(r.outcome is Outcome.PASSED for r in results) > 0
