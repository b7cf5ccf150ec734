# SPDX-License-Identifier: Apache-2.0
"""Which back-end makes machines: chosen by the scheme of `--connect`, each known by register()."""

from collections.abc import Callable
from functools import partial

from riobed.errors import UsageError
from riobed.vm.machine import Machine, MachineConfig

# What makes a machine, powered off.
Driver = Callable[[MachineConfig], Machine]
Factory = Callable[[str | None, MachineConfig], Machine]

# libvirt's QEMU driver, in this process unless a URI says where.
_DEFAULT = "qemu"
_factories: dict[str, Factory] = {}


def register(scheme: str, factory: Factory) -> None:
    """Have `factory` make the machines of URIs with that scheme; its URI is None for the default."""
    _factories[scheme] = factory


def driver(uri: str | None = None) -> Driver:
    """What makes machines for `--connect URI`; UsageError for a scheme that is not registered."""
    # qemu+ssh is qemu over another transport.
    scheme = uri.partition(":")[0].partition("+")[0] if uri else _DEFAULT
    if scheme not in _factories:
        raise UsageError(f"--connect {uri}: unknown scheme; known are {', '.join(sorted(_factories))}")
    return partial(_factories[scheme], uri or None)


def _libvirt(uri: str | None, config: MachineConfig) -> Machine:
    # Not before a machine is wanted: a host without libvirt can still read specs and results.
    from riobed.vm.connection import connect
    from riobed.vm.libvirt import LibvirtMachine

    return LibvirtMachine(connect(uri), config)


register(_DEFAULT, _libvirt)
