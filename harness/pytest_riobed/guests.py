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

_Make = tuple[str, tuple[str, ...], MachineSpec]


class Guests:
    """All guests of this process."""

    def __init__(self) -> None:
        self._guests: dict[_Make, CrashGuest] = {}

    def get(self, mode: str, packages: Sequence[str], machine: Mapping[str, Any]) -> CrashGuest:
        """Return the guest in that mode, with these Debian packages and fields of MachineSpec.

        UsageError if one of them does not exist; EnvironmentFault if nothing is set up.
        """
        if isinstance(packages, str):
            raise UsageError(f"packages={packages!r}: want a list of names")
        try:
            make = (mode, tuple(packages), MachineSpec(**machine))
        except ValidationError as error:
            raise UsageError(f"marker riobed: {complaint(error, 'arguments')}") from None
        if make not in self._guests:
            self._guests[make] = _guest(*make, folder=f"pytest-{len(self._guests)}-{mode}")
        return self._guests[make]

    def end(self) -> None:
        """Power off all guests and remove their files, even if one of them fails."""
        with ExitStack() as stack:
            for guest in self._guests.values():
                stack.callback(guest.end)
        self._guests.clear()


def _guest(mode: str, packages: tuple[str, ...], machine: MachineSpec, folder: str) -> CrashGuest:
    wanted, uri = cache_mode(mode), os.environ.get("RIOBED_LIBVIRT_URI")
    setup = guest_setup(machine, uri)
    if packages:
        setup = replace(setup, workload_image=packages_image(packages, setup.manifest))
    return CrashGuest(mode, open_guest(setup, wanted, folder))
