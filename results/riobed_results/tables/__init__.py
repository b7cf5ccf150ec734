# SPDX-License-Identifier: Apache-2.0
"""Tables: compute them from stored rows, and render them in every format; `registry` lists them."""
