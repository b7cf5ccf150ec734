# SPDX-License-Identifier: Apache-2.0
"""Observe: follows a guest by its console, its progress and the injector's evidence, and brings it down."""
