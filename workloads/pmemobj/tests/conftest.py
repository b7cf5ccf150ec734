# SPDX-License-Identifier: Apache-2.0
"""pmemobj built with the sanitizers."""

import subprocess

import pytest
from pmemobj_helper import SOURCE, Pmemobj


@pytest.fixture(scope="session")
def pmemobj(tmp_path_factory: pytest.TempPathFactory) -> Pmemobj:
    out = tmp_path_factory.mktemp("pmemobj-build")
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={out}", "sanitize"], check=True)
    library = out / "preload_msync.so"
    source = SOURCE / "tests/preload_msync.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return Pmemobj(out / "pmemobj-sanitize", library)
