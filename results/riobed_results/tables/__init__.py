# SPDX-License-Identifier: Apache-2.0
"""Tables: what is computed from stored rows, and its rendering in every format.

May import store.
"""
