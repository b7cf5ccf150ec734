# SPDX-License-Identifier: Apache-2.0
"""NVDIMM: the file that is one, its canary, and what a loss of power takes of it and of RAM."""
