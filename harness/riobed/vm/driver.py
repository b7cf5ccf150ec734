# SPDX-License-Identifier: Apache-2.0
"""Back-ends that make machines. register() adds one; the scheme of `--connect` selects it."""

from collections.abc import Callable
from functools import partial

from riobed.errors import UsageError
from riobed.vm.machine import Machine, MachineConfig

# Makes a machine, powered off.
Driver = Callable[[MachineConfig], Machine]
Factory = Callable[[str | None, MachineConfig], Machine]

# libvirt's QEMU driver; without a URI it runs in this process.
_DEFAULT = "qemu"
_factories: dict[str, Factory] = {}


def register(scheme: str, factory: Factory) -> None:
    """Let `factory` make the machines of URIs with this scheme; it gets None as URI of the default."""
    _factories[scheme] = factory


def driver(uri: str | None = None) -> Driver:
    """Return the back-end for `--connect URI`; UsageError if the scheme is not registered."""
    # qemu+ssh is qemu over another transport.
    scheme = uri.partition(":")[0].partition("+")[0] if uri else _DEFAULT
    if scheme not in _factories:
        raise UsageError(f"--connect {uri}: unknown scheme; known are {', '.join(sorted(_factories))}")
    return partial(_factories[scheme], uri or None)


def _libvirt(uri: str | None, config: MachineConfig) -> Machine:
    # Imported only when a machine is needed: a host without libvirt can still read specs and results.
    from riobed.vm.qemu.connection import connect
    from riobed.vm.qemu.libvirt import LibvirtMachine

    return LibvirtMachine(connect(uri), config)


register(_DEFAULT, _libvirt)
