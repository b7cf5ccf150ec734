/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli): RFC 3720, appendix B.4. */
#ifndef MEMTEST_CRC32C_H
#define MEMTEST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of @length bytes that follow those whose CRC is @crc; 0 to begin. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

#endif
