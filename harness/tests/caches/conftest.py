# SPDX-License-Identifier: Apache-2.0
"""Compiled models are kept in riobed's cache."""

import os

from riobed_results.files import cache_dir

os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_dir() / "numba"))
