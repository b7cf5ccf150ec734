# SPDX-License-Identifier: Apache-2.0
"""The program libvirt starts as QEMU."""

import hashlib
import shlex
from pathlib import Path
from shutil import which

from riobed.errors import EnvironmentFault
from riobed.vm.machine import MachineConfig

# As QEMU writes it; also the name under which the store keeps it.
SINGLE_THREADED = "tcg,thread=single"
# The guest's clock goes by the instructions it executes, 1 ns each; while it is idle, by real time.
COUNTED = "tcg -icount shift=0"
# The same, 4 ns each, and an idle processor finds its next timer at once: no clock of the host comes in.
REPEATABLE = "tcg -icount shift=2,sleep=off"
# Its processor waits until a device has taken a request.
_DEVICES = "".join(f" -global virtio-{name}-pci.ioeventfd=off" for name in ("blk", "serial"))

# libvirt's own "-accel tcg" has no such property, and of two accelerators QEMU takes the first:
# ours cannot go behind it, where <qemu:commandline> would put it. When libvirt only asks QEMU
# what it can do, there is no -accel, and the script changes nothing.
_SCRIPT = """\
#!/bin/sh
case " $* " in *" -accel "*) ;; *) exec {qemu} "$@" ;; esac
set -- {qemu}{accelerator} "$@"
{drop}exec "$@"
"""


def emulator(config: MachineConfig, drop: str = "") -> Path:
    """QEMU, or a script for an accelerator libvirt cannot ask for, or that does `drop` before.

    Machines that are alike share one, beside their folders: libvirt asks each what it can do.
    """
    qemu = which("qemu-system-x86_64")
    if not qemu:
        raise EnvironmentFault("qemu-system-x86_64 is not installed; run 'make setup'")
    ours = config.accelerator in (SINGLE_THREADED, COUNTED, REPEATABLE)
    if not ours and not drop:
        return Path(qemu)
    accelerator = f" -accel {config.accelerator}" if ours else ""
    if config.accelerator == REPEATABLE:
        accelerator += _DEVICES
    text = _SCRIPT.format(accelerator=accelerator, qemu=shlex.quote(qemu), drop=drop)
    script = config.folder.parent / f"qemu-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    if not script.exists():
        made = config.folder / "qemu"
        made.write_text(text)
        made.chmod(0o755)
        made.replace(script)
    return script
