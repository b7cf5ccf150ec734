# SPDX-License-Identifier: Apache-2.0
"""Products: what `make setup` builds, under which key it is cached, and what this checkout uses.

May import errors only, and nothing but the standard library and pydantic: it runs before the project is
installed.
"""

from riobed.products.manifest import ImagePart, KernelPart, Manifest, ToolchainPart, load_manifest, state_dir
from riobed.products.stages import CHECKOUT, MIB, cache_dir, content_key

__all__ = [
    "CHECKOUT",
    "MIB",
    "ImagePart",
    "KernelPart",
    "Manifest",
    "ToolchainPart",
    "cache_dir",
    "content_key",
    "load_manifest",
    "state_dir",
]
