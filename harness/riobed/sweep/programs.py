# SPDX-License-Identifier: Apache-2.0
"""Programs that run on the host, too: recovery's own, and the one that knows operations and lists trees.

They are compiled in the toolchain root, statically, because a host need not have a compiler.
"""

import shutil
import tempfile
from pathlib import Path

from riobed_results.files import replacing

from riobed.products import CHECKOUT, Manifest, cache_dir, content_key
from riobed.vm.host.tools import run_inside

_RECOVER = CHECKOUT / "harness/guest/riorecover"
_SOURCES = {
    "riorecover": _RECOVER,
    "riorecover-steps": _RECOVER,
    "operation": CHECKOUT / "workloads/sweep",
}


def program(manifest: Manifest, name: str) -> Path:
    """Return the program of that name, compiled first if missing; EnvironmentFault if that fails."""
    sources = _SOURCES[name]
    root = manifest.toolchain.root
    built = cache_dir() / "programs" / f"{content_key(sources)}-{manifest.toolchain.key}" / name
    if built.exists():
        return built
    with tempfile.TemporaryDirectory(prefix="program-", dir=root / "build") as made:
        place = Path(made)
        shutil.copytree(sources, place, dirs_exist_ok=True)
        run_inside(root, place, f"make -s {name}", f"build of {name}")
        built.parent.mkdir(parents=True, exist_ok=True)
        with replacing(built) as new:
            shutil.copyfile(place / name, new)
            new.chmod(0o755)
    return built
