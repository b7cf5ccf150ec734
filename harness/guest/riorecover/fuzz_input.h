/* SPDX-License-Identifier: Apache-2.0 */
/* From random bytes to an image of RAM, a registry in it, and a save of it. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "rio_registry.h"

enum { RAM_PAGES = 16, DEVICE_BLOCKS = 8, REGISTRY_PAGE = 2, SAVE_PAGES = 24 };
/* Pages of the registry: the header's, the entries', the log's. */
enum { ENTRY_PAGES = 1, LOG_PAGES = 3, REGISTRY_PAGES = 1 + ENTRY_PAGES + LOG_PAGES };
/* Files 12 and 13 exist, with two pages and a bit. */
enum { FIRST_FILE = 12, FILES = 2, FILE_SIZE = 2 * RIO_PAGE_SIZE + 100 };

#define RAM_SIZE (RAM_PAGES * RIO_PAGE_SIZE)
#define DEVICE_SIZE (DEVICE_BLOCKS * RIO_PAGE_SIZE)
#define SAVE_SIZE (SAVE_PAGES * RIO_PAGE_SIZE)
#define REGISTRY (REGISTRY_PAGE * RIO_PAGE_SIZE)
#define REGISTRY_SIZE (REGISTRY_PAGES * RIO_PAGE_SIZE)

/* Fills ram. */
void input_ram(uint8_t *ram, const uint8_t *data, size_t size);

/* Damages a save. */
void input_save(uint8_t *save, const uint8_t *data, size_t size);

#endif
