# SPDX-License-Identifier: Apache-2.0
"""Emulator: which QEMU there is, the command that starts it, and its plugins."""
