# SPDX-License-Identifier: Apache-2.0
"""The guests of a test session: each is made at first use, one per mode and configuration, then shared."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from riobed import MachineSpec, UsageError, cache_mode, complaint, guest_setup, open_guest

from pytest_riobed.guest import CrashGuest
from pytest_riobed.packages import packages_image

_Make = tuple[str, tuple[str, ...], MachineSpec, bool]


class Guests:
    """All guests of this process."""

    def __init__(self) -> None:
        self._guests: dict[_Make, CrashGuest] = {}

    def get(
        self, mode: str, packages: Sequence[str], machine: Mapping[str, Any], power_lines: bool
    ) -> CrashGuest:
        """Return the guest in that mode, with these Debian packages and fields of MachineSpec.

        With `power_lines` a loss of power also takes cache lines of its NVDIMM (`by="power-lines"`).
        UsageError if one of them does not exist; EnvironmentFault if nothing is set up.
        """
        if isinstance(packages, str):
            raise UsageError(f"packages={packages!r}: want a list of names")
        try:
            spec = MachineSpec(**machine)
        except ValidationError as error:
            raise UsageError(f"marker riobed: {complaint(error, 'arguments')}") from None
        if power_lines and (not spec.nvdimm_mib or spec.vcpus > 1 or spec.accelerator == "kvm"):
            raise UsageError("marker riobed: power_lines: want nvdimm_mib and one emulated processor")
        make = (mode, tuple(packages), spec, power_lines)
        if make not in self._guests:
            self._guests[make] = _guest(*make, folder=f"pytest-{len(self._guests)}-{mode}")
        return self._guests[make]

    def end(self) -> None:
        """Power off all guests and remove their files, even if one of them fails."""
        with ExitStack() as stack:
            for guest in self._guests.values():
                stack.callback(guest.end)
        self._guests.clear()


def _guest(
    mode: str, packages: tuple[str, ...], machine: MachineSpec, power_lines: bool, folder: str
) -> CrashGuest:
    wanted, uri = cache_mode(mode), os.environ.get("RIOBED_LIBVIRT_URI")
    setup = guest_setup(machine, uri, loses_lines=power_lines)
    if packages:
        setup = replace(setup, workload_image=packages_image(packages, setup.manifest))
    return CrashGuest(mode, open_guest(setup, wanted, folder))
