# SPDX-License-Identifier: Apache-2.0
"""Caches: tables of what traces of workloads cost in caches, from the folder of a study."""
