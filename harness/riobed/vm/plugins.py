# SPDX-License-Identifier: Apache-2.0
"""Plugins of the emulator (harness/emulator).

They are compiled in the toolchain root, because a host need not have a compiler.
"""

import shutil
from pathlib import Path

from riobed_results.files import replacing

from riobed.products import CHECKOUT, Manifest, cache_dir, content_key
from riobed.vm.host import run_tool

_SOURCES = CHECKOUT / "harness/emulator"
_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]


def compiled(manifest: Manifest, name: str) -> Path:
    """Return the plugin of that name, compiled first if missing; EnvironmentFault if that fails."""
    built = cache_dir() / "emulator" / f"{content_key(_SOURCES)}-{manifest.toolchain.key}" / f"{name}.so"
    if not built.exists():
        _build(manifest.toolchain.root, built)
    return built


def _build(root: Path, built: Path) -> None:
    place = root / "build" / f"emulator-{built.parent.name}-{built.stem}"
    shutil.copytree(_SOURCES, place, dirs_exist_ok=True)
    inside = Path("/") / place.relative_to(root)
    made = ["gcc", *_FLAGS, "-o", str(inside / built.name), str(inside / f"{built.stem}.c")]
    run_tool(["chroot", str(root), *made], f"build of the emulator's plugin {built.stem}")
    built.parent.mkdir(parents=True, exist_ok=True)
    with replacing(built) as new:
        shutil.copyfile(place / built.name, new)
    shutil.rmtree(place)
