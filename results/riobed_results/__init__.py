# SPDX-License-Identifier: Apache-2.0
"""Store, queries, tables and report of riobed campaigns; imports nothing that needs a machine."""
