# SPDX-License-Identifier: Apache-2.0
"""Models: caches of blocks that a stream is run through; most of them all sizes in one pass."""
