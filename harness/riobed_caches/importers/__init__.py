# SPDX-License-Identifier: Apache-2.0
"""Importers: make traces of files in foreign formats."""
