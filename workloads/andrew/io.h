/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files. What fails leaves errno. */
#ifndef ANDREW_IO_H
#define ANDREW_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Larger than any file of ours: a damaged one may say that it has any size. */
#define SIZE_MOST (16u << 20)

/* Makes a file that is not there yet. */
bool write_new(int dir, const char *path, const void *data, size_t length, bool sync);
/* All of an open file, to be freed; NULL when it cannot be read. */
uint8_t *read_whole(int fd, size_t *length);
/* Makes the names in a directory durable. */
bool sync_dir(int dir, const char *path);

#endif
