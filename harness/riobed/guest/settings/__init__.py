# SPDX-License-Identifier: Apache-2.0
"""Settings: what a spec may say of a guest: machine, cache mode, file system, disk speed, kernel."""
