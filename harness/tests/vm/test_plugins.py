# SPDX-License-Identifier: Apache-2.0
"""The emulator's plugins are compiled for the plugin interface of its version."""

import pytest
from riobed.errors import EnvironmentFault
from riobed.vm.emulator.plugins import plugin_interface


@pytest.mark.parametrize(
    ("version", "interface"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", 1),
        ("QEMU emulator version 8.1.0", 1),
        ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", 3),
        ("QEMU emulator version 9.1.0", 3),
    ],
)
def test_plugins_are_compiled_for_what_qemu_offers(version: str, interface: int) -> None:
    assert plugin_interface(version) == interface


@pytest.mark.parametrize("version", ["QEMU emulator version 8.2.0", "QEMU emulator version 9.0.2", "bochs"])
def test_a_qemu_that_offers_something_else_is_named(version: str) -> None:
    with pytest.raises(EnvironmentFault, match=version):
        plugin_interface(version)
