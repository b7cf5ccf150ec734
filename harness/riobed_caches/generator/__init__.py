# SPDX-License-Identifier: Apache-2.0
"""Generator: traces of a made-up cluster that is fitted to what papers tell of Sprite."""
