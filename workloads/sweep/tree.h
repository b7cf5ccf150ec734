/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREE_H
#define TREE_H

/*
 * Print what is below a folder, four fields for each file, each ended by a NUL: path, kind (as find's %y), attributes,
 * content (of a regular file its FNV-1a hash of 64 bits, of a symbolic link its target). Attributes are what must
 * survive a crash: no times, and no size of a folder. Returns 0, or 1 with a message.
 */
int print_tree(const char *folder);

#endif
