# SPDX-License-Identifier: Apache-2.0
"""NVDIMMs: what crashes did to machines with one, and what it is worth."""
