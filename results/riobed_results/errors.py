# SPDX-License-Identifier: Apache-2.0
"""The ways reading or writing results stops; the command line turns each into one line and a status."""


class StoreError(Exception):
    """The store cannot be used as it is (missing, locked, damaged, of another version); exit status 1."""

    exit_code = 1


class StoreUsageError(StoreError):
    """The request itself is wrong (no such campaign, malformed URL); exit status 2."""

    exit_code = 2
