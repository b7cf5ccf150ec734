# SPDX-License-Identifier: Apache-2.0
"""The kernel parameters that riobed gives its guests, each with the reason why no mode may set it."""

import re
from collections.abc import Iterable

from riobed.errors import UsageError

# By plain name: the parameter that riobed gives, and why.
_OURS: dict[str, tuple[str, str]] = {}


def _plain(name: str) -> str:
    """Return the name of a parameter or sysctl without what its readers do not distinguish.

    A parameter may have `-` for `_` (kernel/params.c, dash2underscore()). A sysctl has `/` for `.`, and is a
    parameter, too, with `sysctl.` before it (fs/proc/proc_sysctl.c, process_sysctl_arg()). No two of them
    differ in `.` and `_` alone.
    """
    return re.sub(r"[-_./]+", "_", name).removeprefix("sysctl_")


def _ours(word: str, why: str, *undo: str) -> str:
    """Declare a parameter, NAME or NAME=VALUE, and return it; `undo` are others and sysctls that undo it."""
    name = word.partition("=")[0]
    _OURS.update({_plain(each): (name, why) for each in (name, *undo)})
    return word


def check_free(words: Iterable[str], where: str = "") -> None:
    """Raise UsageError if one of these parameters, NAME or NAME=VALUE, or sysctls is not free to be set."""
    for word in words:
        if found := _OURS.get(_plain(word.partition("=")[0])):
            name, why = found
            raise UsageError(f"{where}{word} would change what riobed sets by {name}: {why}; remove it")


# Of both stages. That an oops is a panic is a factor of the experiment.
COMMON = [
    # The kernel prints lines up to a level.
    _ours("console=ttyS0,115200", "riobed reads crash reports there", "loglevel", "quiet", "kernel.printk"),
    _ours("panic=0", "a crashed guest stands still until its report is read", "kernel.panic"),
    _ours("oops=panic", "each oops is a crash", "kernel.panic_on_oops"),
    _ours("unknown_nmi_panic=1", "an NMI makes a hung kernel tell its place", "kernel.unknown_nmi_panic"),
    # The kernel tests its timer by counting ticks against a busy loop. On a loaded host an emulated machine
    # fails ("IO-APIC + timer doesn't work!", check_timer() in arch/x86/kernel/apic/io_apic.c).
    _ours("no_timer_check", "the kernel's test of its timer fails on a loaded host"),
    # riobed.crash goes by them.
    _ours("printk.time=1", "time stamps tell the kernel's lines from those of a program"),
]
# QEMU never turns the TSC back. After a restore in the same process it is ahead by all the time since the
# snapshot (softmmu/cpu-timers.c, cpu_get_ticks()), and timers, stall detectors and time stamps would jump.
# The HPET is restored with the snapshot.
_JUMPS = "the TSC jumps when a snapshot is restored, the HPET does not"
_CLOCK = [_ours("tsc=unstable", _JUMPS), _ours("clocksource=hpet", _JUMPS, "clock", "hpet", "nohpet")]
# The processor never sleeps.
AWAKE = [_ours("idle=poll", "a clock that counts instructions must advance while a processor waits")]
PRODUCTION = [
    _ours("root=/dev/vda", "the guest's programs are on its own disk"),
    _ours("ro", "all guests share the disk with their programs", "rw"),
    _ours("init=/usr/sbin/riobed-init", "this program mounts the file system under test"),
    _ours(
        "softlockup_panic=1",
        "a kernel that loops is a crash, and after the same time in all modes",
        "nosoftlockup",
        "nowatchdog",
        "watchdog_thresh",
        *(f"kernel.{name}" for name in ("softlockup_panic", "soft_watchdog", "watchdog", "watchdog_thresh")),
        "kernel.watchdog_cpumask",
    ),
    _ours("nokaslr", "faults are drawn by the addresses in the kernel's file"),
    *_CLOCK,
]
# Names of parameters whose values depend on mode and machine.
MOUNT = _ours("riobed.mount", "the mode has the key `mount` for that")
NVDIMM = _ours("riobed.nvdimm", "the mode has the key `nvdimm` for that")
FILESYSTEM = _ours("riobed.filesystem", "the mode has the key `filesystem` for that")
SYSCTL = _ours("riobed.sysctl", "the mode has the key `sysctls` for that")
PANIC_SYNC = _ours("panic_sync", "the mode has the key `panic_sync_s` for that")
SHELL = _ours("riobed.shell", "a shell on the console is for `riobed shell`")
REGISTRY = _ours("rio.registry", "recovery looks for the registry at this place")
KEEPOUT = _ours("rio.keepout", "a reset overwrites these ranges of memory")
MEMMAP = _ours(
    "memmap", "riobed places what must survive a reset; change the spec's `machine` instead", "mem"
)
