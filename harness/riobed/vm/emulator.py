# SPDX-License-Identifier: Apache-2.0
"""The program libvirt starts as QEMU."""

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
case " $* " in *" -accel "*) set -- -accel {accelerator}{devices} "$@" ;; esac
exec {qemu} "$@"
"""


def emulator(config: MachineConfig) -> Path:
    """QEMU, or for an accelerator libvirt cannot ask for a script in the machine's folder."""
    qemu = which("qemu-system-x86_64")
    if not qemu:
        raise EnvironmentFault("qemu-system-x86_64 is not installed; run 'make setup'")
    if config.accelerator not in (SINGLE_THREADED, COUNTED, REPEATABLE):
        return Path(qemu)
    script = config.folder / "qemu"
    script.write_text(
        _SCRIPT.format(
            accelerator=config.accelerator,
            devices=_DEVICES if config.accelerator == REPEATABLE else "",
            qemu=shlex.quote(qemu),
        )
    )
    script.chmod(0o755)
    return script
