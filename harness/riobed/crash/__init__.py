# SPDX-License-Identifier: Apache-2.0
"""Crash: reads kind, title and crash location from a Linux console."""
