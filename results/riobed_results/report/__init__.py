# SPDX-License-Identifier: Apache-2.0
"""Report: shows a campaign as one page, with plots, and keeps it up to date while the campaign runs."""
