# SPDX-License-Identifier: Apache-2.0
"""Debian packages for a guest: unpacked on its workload's disk, and mounted over its own folders."""

import re
from pathlib import Path

from riobed import GUEST_FOLDER, Manifest, UsageError, workload_image

# Debian policy, section 5.6.1.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
# An overlay of two read-only trees; the guest's root is unchanged (kernel,
# Documentation/filesystems/overlayfs.rst, "Multiple lower layers").
MOUNT = f"""for folder in usr etc opt var; do
	[ ! -d "{GUEST_FOLDER}/$folder" ] ||
		mount -t overlay overlay -o "lowerdir={GUEST_FOLDER}/$folder:/$folder" "/$folder" || exit
done"""


def packages_image(names: tuple[str, ...], manifest: Manifest) -> Path:
    """Make a disk image of the packages and their dependencies from the Debian mirror; it is cached.

    UsageError if a name is not a valid package name; EnvironmentFault if a package cannot be downloaded.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"packages: {name!r} is no name of a Debian package")
    return workload_image(Path(__file__).parent / "unpack", f"./build {' '.join(sorted(names))}", manifest)
