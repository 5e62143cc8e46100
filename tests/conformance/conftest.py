"""What the tests of this folder share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def switch_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled switches are kept: the same programs run in several tests."""
    return tmp_path_factory.mktemp("conformance") / "cache"
