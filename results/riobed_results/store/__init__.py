# SPDX-License-Identifier: Apache-2.0
"""Store: the rows of campaigns, the files beside them, and the queries on both.

May import errors only.
"""
