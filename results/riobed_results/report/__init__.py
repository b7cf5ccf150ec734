# SPDX-License-Identifier: Apache-2.0
"""Report: a campaign as one page, its plots, and its publication.

May import tables and store.
"""
