# SPDX-License-Identifier: Apache-2.0
"""Sweep: crashes an operation of the file system at each store to what Rio lists, and recovers each crash."""

from riobed.sweep.session import sweep

__all__ = ["sweep"]
