# SPDX-License-Identifier: Apache-2.0
"""Commands: one module per command of `riobed`; cli.py parses the options and calls them."""
