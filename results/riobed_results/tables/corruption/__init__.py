# SPDX-License-Identifier: Apache-2.0
"""Corruption: how often crashes damaged files, by which definition, how badly, and whether modes differ."""
