# SPDX-License-Identifier: Apache-2.0
"""Class `kernel_stack`: one random bit of a stack in use flips (the paper, section 3.1, first category)."""

from __future__ import annotations

from riobed.faults.flip import flip_class

KERNEL_STACK = flip_class("kernel_stack", "stack", "one random bit of a kernel stack in use flips")
