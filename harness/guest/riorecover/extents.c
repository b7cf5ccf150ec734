/* SPDX-License-Identifier: Apache-2.0 */
#include "extents.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

/* fs/ext4/ext4.h, struct ext4_super_block */
#define SB_INODES_PER_GROUP	0x28
#define SB_INODE_SIZE		0x58
#define SB_INCOMPAT		0x60
#define SB_DESC_SIZE		0xfe
#define INCOMPAT_META_BG	0x10
#define INCOMPAT_64BIT		0x80
/* struct ext4_group_desc */
#define GD_INODE_TABLE_LOW	0x8
#define GD_INODE_TABLE_HIGH	0x28
#define GD_SIZE			32
/* struct ext4_inode */
#define INODE_FLAGS		0x20
#define INODE_BLOCK		0x28
#define INODE_BLOCK_SIZE	60
#define EXTENTS_FL		0x80000
/* fs/ext4/ext4_extents.h: struct ext4_extent_header, struct ext4_extent_idx */
#define EH_MAGIC		0xf30a
#define EH_ENTRIES		2
#define EH_DEPTH		6
#define EH_SIZE			12
#define EI_LEAF_LOW		4
#define EI_LEAF_HIGH		8
#define EI_SIZE			12
#define MOST_DEPTH		5
/* struct ext4_extent; of an unwritten one the length is larger by EXT_INIT_MAX_LEN. */
#define EE_LENGTH		4
#define MOST_WRITTEN		32768

static uint16_t half(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static int read_at(int fd, uint64_t at, void *to, size_t size)
{
	ssize_t got = pread(fd, to, size, (off_t)at);

	if (got < 0)
		return -errno;
	return got == (ssize_t)size ? 0 : -EUCLEAN;
}

/* Where an inode lies on the device, in bytes, and its size. */
static int find_inode(int fd, uint32_t ino, uint64_t *at, uint32_t *size)
{
	uint8_t sb[256], gd[64] = { 0 };
	uint32_t per_group, incompat, desc_size;
	int err = read_at(fd, SUPERBLOCK_OFFSET, sb, sizeof(sb));

	if (err)
		return err;
	per_group = number_at(sb + SB_INODES_PER_GROUP);
	incompat = number_at(sb + SB_INCOMPAT);
	desc_size = incompat & INCOMPAT_64BIT ? half(sb + SB_DESC_SIZE) : GD_SIZE;
	*size = half(sb + SB_INODE_SIZE);
	if (incompat & INCOMPAT_META_BG)
		return -ENOTSUP;
	if (!ino || !per_group || desc_size < GD_SIZE || desc_size > sizeof(gd) ||
	    *size < INODE_BLOCK + INODE_BLOCK_SIZE || *size > RIO_PAGE_SIZE || RIO_PAGE_SIZE % *size)
		return -EUCLEAN;
	err = read_at(fd, RIO_PAGE_SIZE + (uint64_t)((ino - 1) / per_group) * desc_size, gd, desc_size);
	if (err)
		return err;
	*at = ((uint64_t)(desc_size > GD_SIZE ? number_at(gd + GD_INODE_TABLE_HIGH) : 0) << 32 |
	       number_at(gd + GD_INODE_TABLE_LOW)) * RIO_PAGE_SIZE + (uint64_t)((ino - 1) % per_group) * *size;
	return 0;
}

/* Is it a node of that depth, with as many entries as fit? */
static bool is_node(const uint8_t *node, size_t size, uint32_t depth)
{
	return half(node) == EH_MAGIC && half(node + EH_DEPTH) == depth &&
	       half(node + EH_ENTRIES) <= (size - EH_SIZE) / EI_SIZE;
}

/* Records the blocks below a node of a depth above 0. */
static int record_below(int fd, const uint8_t *node, uint32_t depth, struct undo_log *undo)
{
	uint8_t child[RIO_PAGE_SIZE];
	int err;

	for (uint32_t i = 0; i < half(node + EH_ENTRIES); i++) {
		const uint8_t *index = node + EH_SIZE + i * EI_SIZE;
		uint64_t block = (uint64_t)half(index + EI_LEAF_HIGH) << 32 | number_at(index + EI_LEAF_LOW);

		err = read_at(fd, block * RIO_PAGE_SIZE, child, sizeof(child));
		if (err)
			return err;
		if (!is_node(child, sizeof(child), depth - 1))
			return -EUCLEAN;
		if (!undo_record(undo, block, 0, child, sizeof(child)))
			return -ENOSPC;
		err = depth > 1 ? record_below(fd, child, depth - 1, undo) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* Reads an inode whose extents begin in it with a valid node; 1, 0 if it has none, or -errno. */
static int read_root(int fd, uint32_t ino, uint8_t inode[RIO_PAGE_SIZE], uint64_t *at, uint32_t *size)
{
	const uint8_t *root = inode + INODE_BLOCK;
	int err = find_inode(fd, ino, at, size);

	err = err ? err : read_at(fd, *at, inode, *size);
	if (err)
		return err;
	if (!(number_at(inode + INODE_FLAGS) & EXTENTS_FL))
		return 0;
	return half(root + EH_DEPTH) <= MOST_DEPTH && is_node(root, INODE_BLOCK_SIZE, half(root + EH_DEPTH)) ?
	       1 : -EUCLEAN;
}

bool extents_in_inode(int fd, uint32_t ino)
{
	uint8_t inode[RIO_PAGE_SIZE];
	uint32_t size;
	uint64_t at;

	return read_root(fd, ino, inode, &at, &size) > 0 && !half(inode + INODE_BLOCK + EH_DEPTH);
}

bool extents_stay_in_inode(int fd, uint32_t ino, uint64_t first, uint64_t pages)
{
	uint8_t inode[RIO_PAGE_SIZE];
	const uint8_t *root = inode + INODE_BLOCK;
	uint32_t size;
	uint64_t at;

	if (read_root(fd, ino, inode, &at, &size) <= 0 || half(root + EH_DEPTH))
		return false;
	for (uint32_t i = 0; i < half(root + EH_ENTRIES); i++) {
		const uint8_t *extent = root + EH_SIZE + i * EI_SIZE;
		uint32_t length = half(extent + EE_LENGTH), begin = number_at(extent);
		bool written = length <= MOST_WRITTEN;
		uint64_t end = (uint64_t)begin + (written ? length : length - MOST_WRITTEN);

		/* An unwritten one keeps what is before and what is behind the pages. */
		if (first >= begin && first + pages <= end)
			return written || half(root + EH_ENTRIES) + (first > begin) + (first + pages < end) <=
					  (INODE_BLOCK_SIZE - EH_SIZE) / EI_SIZE;
	}
	return false;
}

int extents_record(int fd, uint32_t ino, struct undo_log *undo)
{
	uint8_t inode[RIO_PAGE_SIZE];
	uint32_t size, depth;
	uint64_t at;
	int err = read_root(fd, ino, inode, &at, &size);

	if (err <= 0)
		return err;
	depth = half(inode + INODE_BLOCK + EH_DEPTH);
	if (!depth)
		return 0;
	if (!undo_record(undo, at / RIO_PAGE_SIZE, (uint32_t)(at % RIO_PAGE_SIZE), inode, size))
		return -ENOSPC;
	err = record_below(fd, inode + INODE_BLOCK, depth, undo);
	return err ? err : 1;
}
