# SPDX-License-Identifier: Apache-2.0
"""riobed: crash testbed for file caches that must survive operating-system crashes.

The names below are the public face, for tests and programs of one's own; pytest_riobed uses nothing else.
All else may change without notice. A guest in a few lines:

    from riobed import MachineSpec, cache_mode, guest_setup, open_guest, read_recovery, wait_stage0

    guest = open_guest(guest_setup(MachineSpec()), cache_mode("rio"), "mine")
    guest.boot()
    guest.machine.run(["/bin/sh", "-c", "echo precious >/mnt/test/file"])
    guest.machine.console.clear()
    guest.machine.reset()  # without warning; RAM is kept
    wait_stage0(guest.machine)  # recovery is over
    print(read_recovery(guest))
    guest.discard()
"""

from typing import TYPE_CHECKING

from riobed_results.face import face

if TYPE_CHECKING:
    from riobed_results.store import RecoveryReport as RecoveryReport

    from riobed.crash.formats import clean as clean
    from riobed.crash.formats import ended as ended
    from riobed.crash.formats import recognise as recognise
    from riobed.errors import BootError as BootError
    from riobed.errors import InfraError as InfraError
    from riobed.errors import RiobedError as RiobedError
    from riobed.errors import UsageError as UsageError
    from riobed.errors import complaint as complaint
    from riobed.guest import GUEST_FOLDER as GUEST_FOLDER
    from riobed.guest import PROGRESS_PORT as PROGRESS_PORT
    from riobed.guest import CacheMode as CacheMode
    from riobed.guest import Guest as Guest
    from riobed.guest import GuestSetup as GuestSetup
    from riobed.guest import MachineSpec as MachineSpec
    from riobed.guest import boot_production as boot_production
    from riobed.guest import cache_mode as cache_mode
    from riobed.guest import copy_in as copy_in
    from riobed.guest import guest_setup as guest_setup
    from riobed.guest import open_guest as open_guest
    from riobed.guest import wait_stage0 as wait_stage0
    from riobed.guest import workload_image as workload_image
    from riobed.products import Manifest as Manifest
    from riobed.signals import clean_up_when_told_to_end as clean_up_when_told_to_end
    from riobed.trial import RECOVERY_TRIES as RECOVERY_TRIES
    from riobed.trial import read_recovery as read_recovery
    from riobed.vm import AgentLost as AgentLost
    from riobed.vm import ExecResult as ExecResult
    from riobed.vm import Machine as Machine

_HOME = {
    "riobed.crash.formats": "clean ended recognise",
    "riobed.errors": "BootError InfraError RiobedError UsageError complaint",
    "riobed.guest.assembly": "GuestSetup",
    "riobed.guest.boot": "boot_production wait_stage0",
    "riobed.guest.settings.config": "MachineSpec",
    "riobed.guest.guest": "Guest open_guest",
    "riobed.guest.workload.images": "workload_image",
    "riobed.guest.settings.modes": "CacheMode cache_mode",
    "riobed.guest.setup": "guest_setup",
    "riobed.guest.transfer": "copy_in",
    "riobed.guest.workload.description": "GUEST_FOLDER PROGRESS_PORT",
    "riobed.products": "Manifest",
    "riobed.signals": "clean_up_when_told_to_end",
    "riobed.trial.recovery.recover": "RECOVERY_TRIES read_recovery",
    "riobed.vm.agent": "AgentLost ExecResult",
    "riobed.vm.machine": "Machine",
    "riobed_results.store.recovery_report": "RecoveryReport",
}

__getattr__, __dir__, __all__ = face(__name__, _HOME)
