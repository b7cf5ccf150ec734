# SPDX-License-Identifier: Apache-2.0
"""Find the accelerator that really boots a guest on this host.

Looking for /dev/kvm is not enough. On some hosts it opens, a VM is created and the BIOS runs, and yet no
Linux guest boots. So each candidate is tried by booting stage 0.
"""

import os
from pathlib import Path

from riobed.errors import InfraError
from riobed.guest.assembly import GuestSetup
from riobed.guest.boot import wait_stage0
from riobed.guest.guest import open_guest
from riobed.guest.memory.layout import MIB
from riobed.guest.settings.config import MachineSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.workload.images import make_empty_disk
from riobed.products import Manifest, cache_dir
from riobed.vm import SINGLE_THREADED, driver

_TRY_S = {"kvm": 20.0, "tcg": 90.0}


def boots(accelerator: str, manifest: Manifest, uri: str | None) -> str:
    """Boot stage 0 with this accelerator; return why that failed, in one line, or "" if it booted."""
    if accelerator == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm cannot be opened"
    setup = GuestSetup(manifest, MachineSpec(), accelerator, driver=driver(uri))
    machine = open_guest(setup, cache_mode("write-through"), f"try-{accelerator}").machine
    try:
        make_empty_disk(machine.config.test_disk, 32 * MIB)
        machine.start()
        wait_stage0(machine, _TRY_S[accelerator])
    except InfraError as error:
        return shortened(str(error))
    finally:
        machine.destroy()
    return ""


def shortened(error: str) -> str:
    """Cut an error to its last 120 characters, to fit a table; QEMU's or the guest's last words are there."""
    return error if len(error) <= 120 else f"...{error[-117:]}"


def choose(wanted: str, manifest: Manifest, uri: str | None) -> str:
    """Return the accelerator to use: the wanted one, or for "auto" KVM if it boots a guest, else TCG.

    The answer is cached for this boot of the host and this guest image.
    """
    if wanted != "auto":
        return wanted
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = cache_dir() / "accelerator" / f"{boot_id}-{manifest.image.key}"
    if known.exists() and (name := known.read_text()) in _TRY_S:
        return name
    name = "tcg" if boots("kvm", manifest, uri) else "kvm"
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(name)
    return name


def for_processors(accelerator: str, vcpus: int) -> str:
    """Return the accelerator for a guest with `vcpus` processors.

    With one thread per processor, QEMU 7.2's TCG can loop on a breakpoint that another processor has removed.
    Activation is detected by breakpoints, so TCG runs all processors in a single thread.
    """
    return SINGLE_THREADED if accelerator == "tcg" and vcpus > 1 else accelerator
