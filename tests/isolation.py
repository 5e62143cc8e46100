"""Tests that run inside an emulation of their own."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mininet_topos.errors import EmulationError
from mininet_topos.namespace import is_isolated, run_isolated
from mininet_topos.tools import NETWORK_TOOLS, require_tools

Test = Callable[..., None]


def isolated(test: Test) -> Test:
    """Run a pytest test inside new namespaces, by a second pytest for this test alone.

    The test is marked `root` and `mininet`, and skipped with the reason where it cannot run.
    Further conditions belong into `skipif` marks: a skip inside is not seen outside.
    """

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        if is_isolated():
            test(*args, **kwargs)
            return
        _, _, name = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].partition("::")
        pytest_argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        try:
            require_tools(*NETWORK_TOOLS)
            code = run_isolated([*pytest_argv, f"{test.__code__.co_filename}::{name}"])
        except EmulationError as error:
            pytest.skip(str(error))
        assert code == 0, "the test failed inside the emulation, see its output"

    marked: Test = pytest.mark.root(pytest.mark.mininet(run))
    return marked
