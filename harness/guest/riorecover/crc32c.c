/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32c.h"

#define POLY 0x82f63b78u /* 0x1EDC6F41 with its bits reversed */

static uint32_t table[256];

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLY : 0);
		table[i] = crc;
	}
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *p = data;

	if (!table[1])
		fill_table();
	while (size--)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
	return crc;
}
