# SPDX-License-Identifier: Apache-2.0
"""Rules: what a row means. Endpoints, oracles, controls and the protocol judge rows and make no tables."""
