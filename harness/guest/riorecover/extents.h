/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that say where the data of a file lies: inode and tree of extents, as ext4 has them on the disk. */
#ifndef EXTENTS_H
#define EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "undo.h"

/*
 * Records the inode of a file and the blocks of its extents. fd is the device's, on which the file system is mounted.
 * 1; 0 if all of it is in one block, which is written at once; -ENOSPC if the log has no room, -EUCLEAN if it makes no
 * sense, -ENOTSUP if the file system has its inodes in another place, or another -errno.
 */
int extents_record(int fd, uint32_t ino, struct undo_log *undo);

/* Are all extents of a file in its inode? No, if it cannot be told. */
bool extents_in_inode(int fd, uint32_t ino);

/* Will they be after a write of these pages? No, if it cannot be told, and if the pages are not one extent's. */
bool extents_stay_in_inode(int fd, uint32_t ino, uint64_t first, uint64_t pages);

#endif
