# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: the contract in machine.py, libvirt behind it."""
