# SPDX-License-Identifier: Apache-2.0
"""Errors of reading or writing results; the command line prints one line and exits with a status."""


class StoreError(Exception):
    """The store cannot be used: it is missing, locked, damaged or of another version. Exit status 1."""

    exit_code = 1


class StoreUsageError(StoreError):
    """The request itself is wrong (no such campaign, malformed URL). Exit status 2."""

    exit_code = 2
