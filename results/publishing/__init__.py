# SPDX-License-Identifier: Apache-2.0
"""Publishing: writes folders of results/published, and checks what their pages state.

It is a part of the checkout, not of what is installed: `python -m publishing`, with `results/` in PYTHONPATH.
"""
