# SPDX-License-Identifier: Apache-2.0
"""riobed: crash testbed for file caches that must survive operating-system crashes."""
