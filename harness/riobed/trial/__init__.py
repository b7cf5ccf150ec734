# SPDX-License-Identifier: Apache-2.0
"""Trial: the life of one trial, from the snapshot to a verdict, and the row that is stored of it.

May import plan, guest, faults, crash and vm. It runs on the guest it is given.
"""
