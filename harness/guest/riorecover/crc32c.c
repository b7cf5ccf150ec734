/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32c.h"

#include <endian.h>
#include <string.h>

#define POLY 0x82f63b78u /* 0x1EDC6F41 with its bits reversed */

/*
 * Eight bytes at a time, because every recovery checks every page of the cache:
 * table[n][b] is the contribution of byte b with n more bytes behind it.
 */
static uint32_t table[8][256];

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLY : 0);
		table[0][i] = crc;
	}
	for (int n = 1; n < 8; n++)
		for (int i = 0; i < 256; i++)
			table[n][i] = table[n - 1][i] >> 8 ^ table[0][table[n - 1][i] & 0xff];
}

/* Written out: an emulated processor takes as long for the loop's own instructions as for the tables. */
static uint32_t eight_bytes(uint32_t crc, const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	word = le64toh(word) ^ crc;
	return table[7][word & 0xff] ^ table[6][word >> 8 & 0xff] ^ table[5][word >> 16 & 0xff] ^
	       table[4][word >> 24 & 0xff] ^ table[3][word >> 32 & 0xff] ^ table[2][word >> 40 & 0xff] ^
	       table[1][word >> 48 & 0xff] ^ table[0][word >> 56];
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *p = data;

	if (!table[0][1])
		fill_table();
	for (; size >= 8; size -= 8, p += 8)
		crc = eight_bytes(crc, p);
	while (size--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}
