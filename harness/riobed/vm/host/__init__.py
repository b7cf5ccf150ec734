# SPDX-License-Identifier: Apache-2.0
"""Host: the host's tools and room, scratch folders, QEMU's processes and the user they run as."""
