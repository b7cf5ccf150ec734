// SPDX-License-Identifier: Apache-2.0
#include "api.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

extern const struct api api_tx, api_atomic, api_libpmem, api_btree, api_hashmap_tx;

const struct api *const apis[] = { &api_tx, &api_atomic, &api_libpmem, &api_btree, &api_hashmap_tx, NULL };

struct api_error api_error;

bool api_failed(const char *text)
{
	const char *name = strerrorname_np(errno);

	snprintf(api_error.name, sizeof(api_error.name), "%s", name ? name : "unknown");
	snprintf(api_error.text, sizeof(api_error.text), "%s", text);
	for (char *character = api_error.text; *character; character++)
		if (!isprint((unsigned char)*character))
			*character = ' ';
	return false;
}
