# SPDX-License-Identifier: Apache-2.0
"""NVDIMM: the file that is a machine's NVDIMM, its canary, and what a loss of power takes."""
