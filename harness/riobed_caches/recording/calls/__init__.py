# SPDX-License-Identifier: Apache-2.0
"""Recording/Calls: what each system call does to files and descriptors."""
