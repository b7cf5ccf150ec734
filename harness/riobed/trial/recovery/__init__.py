# SPDX-License-Identifier: Apache-2.0
"""Recovery: restarts a crashed guest, waits for its recovery, and compares the files."""
