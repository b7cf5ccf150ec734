# SPDX-License-Identifier: Apache-2.0
"""memtest built with the sanitizers, and a tree that it made."""

import shutil
import subprocess
from pathlib import Path

import pytest
from memtest_helper import SEED, SOURCE, STEPS, Memtest


@pytest.fixture(scope="session")
def memtest(tmp_path_factory: pytest.TempPathFactory) -> Memtest:
    out = tmp_path_factory.mktemp("memtest-build")
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={out}", "sanitize"], check=True)
    return Memtest(out / "memtest-sanitize")


@pytest.fixture(scope="session")
def original(memtest: Memtest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test directory after STEPS steps under SEED; not to be changed."""
    root = tmp_path_factory.mktemp("memtest-original") / "dir"
    memtest.run(root, SEED, STEPS)
    return root


@pytest.fixture
def tree(original: Path, tmp_path: Path) -> Path:
    """A copy of `original` to damage."""
    return Path(shutil.copytree(original, tmp_path / "dir"))
