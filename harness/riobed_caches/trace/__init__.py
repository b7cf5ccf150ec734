# SPDX-License-Identifier: Apache-2.0
"""Trace: what a workload did to files, one event a row, and its file."""
