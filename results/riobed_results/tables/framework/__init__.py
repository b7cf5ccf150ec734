# SPDX-License-Identifier: Apache-2.0
"""Framework: what a table is, its page, its formats, and how shares are written; it knows no table."""
