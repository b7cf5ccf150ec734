# SPDX-License-Identifier: Apache-2.0
"""The papers: numbers and statements of theirs that stand beside ours."""
