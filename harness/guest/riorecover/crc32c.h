/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRC32C_H
#define CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * CRC32C (Castagnoli, polynomial 0x1EDC6F41 reflected), without inversion at
 * either end: the same as __crc32c_le() of the kernel's lib/crc32.c.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
