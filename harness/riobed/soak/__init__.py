# SPDX-License-Identifier: Apache-2.0
"""Soak: stressors without faults, a reset after each, and a comparison of every file.

May import trial, guest, crash, vm and products.
"""

from riobed.soak.session import soak

__all__ = ["soak"]
