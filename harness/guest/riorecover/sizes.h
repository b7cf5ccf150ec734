/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of files whose last write the crash cut up. */
#ifndef SIZES_H
#define SIZES_H

#include <stdint.h>

/*
 * ext4 gives a file the block before the size that covers it, each a change of
 * the inode of its own. After a crash in between, e2fsck rounds the size up to
 * the block's end: a size the file never had, and stale bytes of the disk in it.
 * Without a journal nobody takes the block back. So do that here: read in
 * e2fsck's log which sizes it changed, and cut those files back to what the
 * restored inode said.
 *
 * Returns how many files were cut back, or -errno with a line on stderr.
 */
int64_t put_back_sizes(const char *fsck_log, const char *mount_point);

#endif
