# SPDX-License-Identifier: Apache-2.0
"""Classes: the fault classes, one module for each class or family of classes."""
