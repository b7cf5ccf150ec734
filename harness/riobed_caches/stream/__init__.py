# SPDX-License-Identifier: Apache-2.0
"""Stream: a trace turned into what caches of blocks see, with the flushes of a consistency protocol."""
