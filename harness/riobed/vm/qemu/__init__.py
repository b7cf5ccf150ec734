# SPDX-License-Identifier: Apache-2.0
"""QEMU: a machine that libvirt drives, its connection, and the state of its devices."""
