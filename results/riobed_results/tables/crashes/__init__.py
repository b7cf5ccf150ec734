# SPDX-License-Identifier: Apache-2.0
"""Crashes: how and when kernels crashed, where, and what led from a fault to a damaged file."""
