# SPDX-License-Identifier: Apache-2.0
"""Trace: how a fault propagated to the damaged blocks, from what SystemTap logged in the guest.

May import trial, guest, faults and vm.
"""
