# SPDX-License-Identifier: Apache-2.0
"""Campaign: runs the planned trials on workers, here or on other hosts, and stores one row each.

May import trial, plan, guest, faults, vm and products.
"""
