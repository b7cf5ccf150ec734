/* SPDX-License-Identifier: Apache-2.0 */
/* What stands under a name on disk, whatever its content is. */
#ifndef MEMTEST_ENTRY_H
#define MEMTEST_ENTRY_H

#include <sys/stat.h>

#include "model.h"
#include "report.h"

/* More entries in one directory than this are not looked at: a damaged one may have no end. */
#define ENTRIES_MAX 100000u

/* What is known of an inode. */
struct about {
	bool is_dir;
	const struct node *twin;	/* NULL: it is none */
	unsigned int xattrs;	/* as in the options */
	bool linked;		/* a step that may not be there whole gives it a link, or takes one */
};

const char *type_name(mode_t mode);
void join_path(char *path, size_t size, const char *dir, const char *name);
/* Reports mode, owner, links, time and extended attributes of the inode open as @fd, if they are wrong. */
void check_metadata(struct report *report, int fd, const struct about *about, const char *path);

#endif
