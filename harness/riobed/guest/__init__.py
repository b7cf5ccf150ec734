# SPDX-License-Identifier: Apache-2.0
"""Guest: makes a guest of a cache mode: its parts, boot, snapshots and life cycle."""

from riobed.guest.accelerator import boots
from riobed.guest.assembly import GuestSetup
from riobed.guest.boot import BOOT_S, STAGE0, STAGE0_READY, boot_error, boot_production, wait_stage0
from riobed.guest.guest import Guest, WarmStart, open_guest
from riobed.guest.memory.layout import MIB, PAGE, Layout
from riobed.guest.memory.meminfo import CacheUse
from riobed.guest.parking import Parking
from riobed.guest.preparing import REMOUNT
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import (
    CacheMode,
    CacheShare,
    ModeName,
    all_modes,
    cache_mode,
    find_mode,
    not_shipped,
    read_modes,
    unfold,
)
from riobed.guest.settings.promise import WRONG, Promise
from riobed.guest.settings.strict import Strict, as_value_error
from riobed.guest.settings.throttle import Throttle, disk_models
from riobed.guest.setup import check_mode, guest_setup, provenance
from riobed.guest.transfer import copy_in, poll
from riobed.guest.workload.commands import DEFERRED, Check, ModeWorkload
from riobed.guest.workload.description import GUEST_DIR, GUEST_FOLDER, PROGRESS_PORT, Beside
from riobed.guest.workload.images import workload_image

__all__ = [
    "BOOT_S",
    "DEFERRED",
    "GUEST_DIR",
    "GUEST_FOLDER",
    "MIB",
    "PAGE",
    "PROGRESS_PORT",
    "REMOUNT",
    "STAGE0",
    "STAGE0_READY",
    "WRONG",
    "Beside",
    "CacheMode",
    "CacheShare",
    "CacheUse",
    "Check",
    "Guest",
    "GuestSetup",
    "Layout",
    "MachineSpec",
    "ModeName",
    "ModeWorkload",
    "Parking",
    "Promise",
    "Strict",
    "Throttle",
    "WarmStart",
    "WorkloadSpec",
    "all_modes",
    "as_value_error",
    "boot_error",
    "boot_production",
    "boots",
    "cache_mode",
    "check_mode",
    "copy_in",
    "disk_models",
    "find_mode",
    "guest_setup",
    "not_shipped",
    "open_guest",
    "poll",
    "provenance",
    "read_modes",
    "unfold",
    "wait_stage0",
    "workload_image",
]
