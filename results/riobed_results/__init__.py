# SPDX-License-Identifier: Apache-2.0
"""Store, queries and tables of riobed campaigns; imports nothing of the VM side."""
