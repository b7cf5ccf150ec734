# SPDX-License-Identifier: Apache-2.0
"""Debian packages for a guest: unpacked on its workload's disk, seen in its own folders."""

import re
from pathlib import Path

from riobed import GUEST_FOLDER, Manifest, UsageError, workload_image

# Debian policy, section 5.6.1.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
# Two read-only trees, one seen through the other: kernel, Documentation/filesystems/overlayfs.rst,
# "Multiple lower layers". The guest's root stays as it is.
MOUNT = f"""for folder in usr etc opt var; do
	[ ! -d "{GUEST_FOLDER}/$folder" ] ||
		mount -t overlay overlay -o "lowerdir={GUEST_FOLDER}/$folder:/$folder" "/$folder" || exit
done"""


def packages_image(names: tuple[str, ...], manifest: Manifest) -> Path:
    """A disk image of the packages and what they depend on, made once (from the Debian mirror) and kept.

    UsageError for what is no package's name; EnvironmentFault when they cannot be had.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"packages: {name!r} is no name of a Debian package")
    return workload_image(Path(__file__).parent / "unpack", f"./build {' '.join(sorted(names))}", manifest)
