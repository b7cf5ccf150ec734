# SPDX-License-Identifier: Apache-2.0
"""Products: what is built, under which key it is cached, and what this checkout uses.

Apart from `errors` and `riobed_results.files` it imports only the standard library and pydantic, because it
runs before the project is installed.
"""

from riobed_results.files import cache_dir

from riobed.products.kernel import Fragment, KernelSpec
from riobed.products.manifest import (
    ImagePart,
    KernelPart,
    Manifest,
    ToolchainPart,
    load_manifest,
    make_manifest,
    state_dir,
)
from riobed.products.stages import CHECKOUT, MIB, content_key, missing, prepare_cache
from riobed.products.unpack import unpacking

__all__ = [
    "CHECKOUT",
    "MIB",
    "Fragment",
    "ImagePart",
    "KernelPart",
    "KernelSpec",
    "Manifest",
    "ToolchainPart",
    "cache_dir",
    "content_key",
    "load_manifest",
    "make_manifest",
    "missing",
    "prepare_cache",
    "state_dir",
    "unpacking",
]
