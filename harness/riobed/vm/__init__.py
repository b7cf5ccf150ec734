# SPDX-License-Identifier: Apache-2.0
"""VM: a virtual machine that keeps its RAM over a reset, and the host that it runs on.

May import products. It knows nothing of what runs inside the guest.
"""
