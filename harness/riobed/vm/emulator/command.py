# SPDX-License-Identifier: Apache-2.0
"""The program libvirt starts as QEMU."""

import hashlib
import shlex
from pathlib import Path
from shutil import which

from riobed_results.files import replacing

from riobed.errors import EnvironmentFault
from riobed.products import MIB
from riobed.vm.machine import MachineConfig

# As QEMU writes it; the store records this name, too.
SINGLE_THREADED = "tcg,thread=single"
# The guest's clock counts executed instructions, 1 ns each; while the guest is idle it follows real time.
COUNTED = "tcg -icount shift=0"
# The same with 4 ns each; an idle processor jumps to its next timer, so no host clock has any influence.
REPEATABLE = "tcg -icount shift=2,sleep=off"
# MiB of translated code that the emulator keeps before it begins anew (tb-size). By itself it keeps an eighth
# of the host's memory, at most 1 GiB, which a guest that compiles fills within a minute.
TRANSLATED_MIB = 256
# MiB of its own that QEMU had besides, measured and rounded up.
_QEMU_MIB = 120
# Without ioeventfd the processor waits until a device has taken a request.
_DEVICES = "".join(f" -global virtio-{name}-pci.ioeventfd=off" for name in ("blk", "serial"))

# libvirt's own "-accel tcg" has no such properties. QEMU takes the first of two -accel options, and
# <qemu:commandline> would put ours last, so a script puts it first. When libvirt only probes QEMU's
# capabilities there is no -accel, and the script changes nothing. `made` tells QEMU's versions apart: libvirt
# probes again only when the program it starts has changed.
_SCRIPT = """\
#!/bin/sh
# {made}
case " $* " in *" -accel "*) ;; *) exec {qemu} "$@" ;; esac
set -- {qemu}{accelerator} "$@"
{drop}exec "$@"
"""


def emulator_memory(accelerator: str) -> int:
    """Return the bytes of the host's memory that QEMU takes besides the guest's own."""
    return (_QEMU_MIB + (0 if accelerator == "kvm" else TRANSLATED_MIB)) * MIB


def emulator(config: MachineConfig, scripts: Path, drop: str = "") -> Path:
    """Return QEMU's path, or a script's if libvirt cannot request the accelerator or `drop` must run first.

    Equal machines share one script in the folder `scripts`: libvirt probes the capabilities of each program.
    """
    qemu = str(config.qemu) if config.qemu else which("qemu-system-x86_64")
    if not qemu:
        raise EnvironmentFault("qemu-system-x86_64 is not installed; run 'make setup'")
    ours = config.accelerator in (SINGLE_THREADED, COUNTED, REPEATABLE)
    if not ours and not drop:
        return Path(qemu)
    limited = config.accelerator.replace("tcg", f"tcg,tb-size={TRANSLATED_MIB}", 1)
    accelerator = f" -accel {limited}" if ours else ""
    if config.accelerator == REPEATABLE:
        accelerator += _DEVICES
    made = Path(qemu).stat().st_mtime_ns
    text = _SCRIPT.format(made=made, accelerator=accelerator, qemu=shlex.quote(qemu), drop=drop)
    script = scripts / f"qemu-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    if not script.exists():
        with replacing(script) as new:
            new.write_text(text)
            new.chmod(0o755)
    return script
