# SPDX-License-Identifier: Apache-2.0
"""The fault classes: one module for each class or family of classes.

May import base and sites.
"""
