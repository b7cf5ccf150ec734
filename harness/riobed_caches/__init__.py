# SPDX-License-Identifier: Apache-2.0
"""Riobed_caches: traces of what workloads did to files, and models of caches that they are run through."""
