# SPDX-License-Identifier: Apache-2.0
"""pmemobj built with the sanitizers."""

import subprocess
from pathlib import Path

import pytest
from pmemobj_helper import SOURCE, Pmemobj

_PACKAGE = "libpmemobj-dev"
_EXAMPLES = f"usr/share/doc/{_PACKAGE}/examples"


def examples(folder: Path) -> Path:
    """Return the folder of PMDK's examples; where dpkg leaves out /usr/share/doc it is below `folder`."""
    if (installed := Path("/") / _EXAMPLES).is_dir():
        return installed
    subprocess.run(["apt-get", "-qq", "download", _PACKAGE], cwd=folder, check=True)
    (package,) = folder.glob(f"{_PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder / _EXAMPLES


@pytest.fixture(scope="session")
def pmemobj(tmp_path_factory: pytest.TempPathFactory) -> Pmemobj:
    out = tmp_path_factory.mktemp("pmemobj-build")
    made = [f"O={out}", f"EXAMPLES={examples(out)}", "sanitize"]
    subprocess.run(["make", "-s", "-C", SOURCE, *made], check=True)
    library = out / "preload_msync.so"
    source = SOURCE / "tests/preload_msync.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return Pmemobj(out / "pmemobj-sanitize", library)
