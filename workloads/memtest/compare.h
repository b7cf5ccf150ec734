/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMTEST_COMPARE_H
#define MEMTEST_COMPARE_H

#include "inflight.h"
#include "report.h"

/*
 * Compares the regular file open as @fd with what @expect allows, and reports
 * each wrong size and each wrong stretch of bytes under @path. Reads no more than
 * FILE_MAX bytes, however large the file says it is.
 */
void compare_file(struct report *report, int fd, const char *path, const struct expect *expect, uint64_t seed);

#endif
