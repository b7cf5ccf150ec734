# SPDX-License-Identifier: Apache-2.0
"""Crash: what a Linux console says of a crash: its kind, its title and the crash location.

May import riobed_results.store.
"""
