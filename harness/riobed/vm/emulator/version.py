# SPDX-License-Identifier: Apache-2.0
"""Which QEMU there is, and a newer one for what the host's cannot do."""

import hashlib
import re
import shutil
import tempfile
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.products import Manifest, cache_dir, unpacking
from riobed.vm.host.tools import need_room, run_inside, run_tool

_PROGRAM = "qemu-system-x86_64"
_PACKAGE = "qemu-system-x86"
_BUILD = Path(__file__).with_name("qemu.sh")
# Unpacked, with the packages it comes from; measured and rounded up.
_ROOM = 500 << 20
# Since then a plugin can read registers (QEMU, docs/about/emulation.rst and include/qemu/qemu-plugin.h).
_READS_REGISTERS = (9, 1)


def qemu_version(program: Path | None = None) -> str:
    """Return the version line of a QEMU, by default the host's; EnvironmentFault if it is not installed."""
    return run_tool([str(program or _PROGRAM), "--version"], "QEMU").splitlines()[0]


def version_number(line: str) -> tuple[int, int]:
    """Return the first two numbers of a version line; EnvironmentFault if it has none."""
    if not (found := re.search(r"version (\d+)\.(\d+)", line)):
        raise EnvironmentFault(f"QEMU: its version line is {line!r}: install Debian's QEMU")
    return int(found[1]), int(found[2])


def reads_registers() -> bool:
    """Whether plugins of the host's QEMU can read registers."""
    return version_number(qemu_version()) >= _READS_REGISTERS


def reading_qemu(manifest: Manifest) -> Path | None:
    """Return a QEMU whose plugins can read registers; None: the host's can.

    Where it is older, Debian 13's is unpacked in the toolchain root. It is then cached.
    EnvironmentFault if that fails.
    """
    if reads_registers():
        return None
    script = f"{unpacking([_PACKAGE])}{_BUILD.read_text(encoding='utf-8')}"
    key = hashlib.sha256(f"{script}{manifest.toolchain.key}".encode()).hexdigest()[:16]
    place = cache_dir() / "qemu" / key
    if not place.exists():
        _unpack(manifest.toolchain.root, script, place)
    return place / _PROGRAM


def _unpack(root: Path, script: str, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    need_room(place.parent, _ROOM)
    (root / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root / "build", prefix="qemu-") as made:
        folder = Path(made) / "qemu"
        folder.mkdir()
        run_inside(root, folder, script, "Debian 13's QEMU")
        new = Path(tempfile.mkdtemp(dir=place.parent))
        shutil.copytree(folder, new, symlinks=True, dirs_exist_ok=True)
        new.rename(place)
