# SPDX-License-Identifier: Apache-2.0
"""Controls: runs that show that the harness itself loses nothing, finds what was planted, and repeats."""
