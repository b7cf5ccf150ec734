# SPDX-License-Identifier: Apache-2.0
"""Class `kernel_heap`: a random bit of a live slab object flips (the paper, section 3.1, first category)."""

from __future__ import annotations

from riobed.faults.flip import flip_class

KERNEL_HEAP = flip_class("kernel_heap", "heap", "one random bit of an allocated object flips")
