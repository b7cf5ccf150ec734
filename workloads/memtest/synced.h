/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for file systems that write later: what was made durable must be there, and each other file and name in
 * a state that it had since. A rename moves a file or does not.
 */
#ifndef MEMTEST_SYNCED_H
#define MEMTEST_SYNCED_H

#include "options.h"
#include "report.h"

/*
 * Counts in @report the files and names in each state, notes the first step that is not there, and adds what breaks
 * the rule as differences. @root is the test directory; the steps are those of the options, and perhaps one more.
 */
void check_synced(struct report *report, int root, const struct options *options, uint64_t steps, bool next);

#endif
