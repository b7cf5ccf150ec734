# SPDX-License-Identifier: Apache-2.0
"""Soak: runs stressors without faults, resets after each, and compares every file."""

from riobed.soak.session import soak

__all__ = ["soak"]
