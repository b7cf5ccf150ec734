# SPDX-License-Identifier: Apache-2.0
"""Workload: what a workload's folder says, its image, its commands in a mode, and the files it leaves."""
