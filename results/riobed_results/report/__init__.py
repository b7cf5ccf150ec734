# SPDX-License-Identifier: Apache-2.0
"""Report: shows a campaign as one page, with plots, and publishes it."""
