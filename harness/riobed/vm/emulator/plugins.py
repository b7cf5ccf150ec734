# SPDX-License-Identifier: Apache-2.0
"""Plugins of the emulator (harness/emulator).

They are compiled in the toolchain root, because a host need not have a compiler.
"""

import shlex
import shutil
import tempfile
from pathlib import Path

from riobed_results.files import replacing

from riobed.errors import EnvironmentFault
from riobed.products import CHECKOUT, Manifest, cache_dir, content_key
from riobed.vm.emulator.version import qemu_version, version_number
from riobed.vm.host.tools import run_inside

_SOURCES = CHECKOUT / "harness/emulator"
_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]


def compiled(manifest: Manifest, name: str, qemu: Path | None = None) -> Path:
    """Return the plugin of that name for a QEMU, by default the host's, compiled first if missing.

    EnvironmentFault if that fails, or if QEMU's plugin interface is not known.
    """
    interface = plugin_interface(qemu_version(qemu))
    key = f"{content_key(_SOURCES)}-{interface}-{manifest.toolchain.key}"
    built = cache_dir() / "emulator" / key / f"{name}.so"
    if not built.exists():
        _build(manifest.toolchain.root, interface, built)
    return built


def plugin_interface(version: str) -> int:
    """Return the version of the plugin interface for a QEMU (harness/emulator/qemu_plugin.h).

    `version` is QEMU's own line. EnvironmentFault if the QEMU has an interface that the plugins are not for.
    """
    number = version_number(version)
    if (4, 2) <= number < (8, 2):
        return 1
    if number >= (9, 1):
        return 3
    raise EnvironmentFault(f"{version}: plugins need QEMU 4.2 to 8.1, or 9.1 and later")


def _build(root: Path, interface: int, built: Path) -> None:
    # A folder of its own: two processes may build the same plugin at the same time.
    with tempfile.TemporaryDirectory(prefix="emulator-", dir=root / "build") as made:
        place = Path(made)
        shutil.copytree(_SOURCES, place, dirs_exist_ok=True)
        flags = [*_FLAGS, f"-DQEMU_PLUGIN_VERSION={interface}"]
        command = shlex.join(["gcc", *flags, "-o", built.name, f"{built.stem}.c"])
        run_inside(root, place, command, f"build of the emulator's plugin {built.stem}")
        built.parent.mkdir(parents=True, exist_ok=True)
        with replacing(built) as new:
            shutil.copyfile(place / built.name, new)
