// SPDX-License-Identifier: Apache-2.0
#ifndef RING_H
#define RING_H

#include <stddef.h>
#include <sys/types.h>

/* pwrite through an io_uring; exits with LACKS when the kernel has none. */
ssize_t ring_write(int file, const void *bytes, size_t length, off_t offset);

#endif
