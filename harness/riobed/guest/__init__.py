# SPDX-License-Identifier: Apache-2.0
"""Guest: one machine in one cache mode: its images, memory layout, boot, snapshots and workload.

May import vm, crash and products.
"""
