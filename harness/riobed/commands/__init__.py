# SPDX-License-Identifier: Apache-2.0
"""Commands: one module for each command of `riobed`; cli.py parses and calls them.

May import every room of the harness. No room imports this one.
"""
