# SPDX-License-Identifier: Apache-2.0
"""Plan: what a campaign's spec says, and the ordered trials that follow from it. Pure.

May import guest and faults, for the names that a spec may use.
"""
