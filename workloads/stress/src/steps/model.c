// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <err.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>

#include "step.h"

void *need(void *memory)
{
	if (!memory)
		errx(LACKS, "no memory for the model");
	return memory;
}

/* splitmix64's finaliser. */
uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

void pattern(uint64_t seed, off_t offset, unsigned char *bytes, size_t length)
{
	uint64_t word = 0;

	for (size_t n = 0; n < length; n++) {
		uint64_t at = (uint64_t)offset + n;

		if (n == 0 || at % 8 == 0)
			word = mix(seed + at / 8);
		bytes[n] = (unsigned char)(word >> at % 8 * 8);
	}
}

struct model *model_new(void)
{
	struct model *model = need(calloc(1, sizeof(*model)));

	for (int n = 0; n < MAX_NAMES; n++)
		model->names[n].node = -1;
	model->nodes[ROOT] = (struct node){ .type = DIRECTORY, .mode = 0755, .links = 1 };
	return model;
}

int model_free_node(const struct model *model)
{
	for (int n = 1; n < MAX_NODES; n++)
		if (model->nodes[n].type == NOTHING)
			return n;
	return -1;
}

int model_free_name(const struct model *model)
{
	for (int n = 0; n < MAX_NAMES; n++)
		if (model->names[n].node < 0)
			return n;
	return -1;
}

void model_link(struct model *model, int name, int parent, const char *text, int node)
{
	struct name *entry = &model->names[name];

	entry->parent = parent;
	entry->node = node;
	strcpy(entry->text, text);
	model->nodes[node].links++;
	if (name >= model->last_name)
		model->last_name = name + 1;
}

void model_unlink(struct model *model, int name)
{
	struct node *node = &model->nodes[model->names[name].node];

	model->names[name].node = -1;
	while (model->last_name && model->names[model->last_name - 1].node < 0)
		model->last_name--;
	if (--node->links == 0) {
		data_free(model, node);
		memset(node, 0, sizeof(*node));
	}
}

int model_children(const struct model *model, int directory)
{
	int count = 0;

	for (int n = 0; n < model->last_name; n++)
		count += model->names[n].node >= 0 && model->names[n].parent == directory;
	return count;
}

int model_subdirectories(const struct model *model, int directory)
{
	int count = 0;

	for (int n = 0; n < model->last_name; n++) {
		const struct name *name = &model->names[n];

		count += name->node >= 0 && name->parent == directory && model->nodes[name->node].type == DIRECTORY;
	}
	return count;
}

int model_name_of(const struct model *model, int node)
{
	for (int n = 0; n < model->last_name; n++)
		if (model->names[n].node == node)
			return n;
	return -1;
}

int model_lookup(const struct model *model, int parent, const char *text)
{
	for (int n = 0; n < model->last_name; n++) {
		const struct name *name = &model->names[n];

		if (name->node >= 0 && name->parent == parent && !strcmp(name->text, text))
			return n;
	}
	return -1;
}

bool model_inside(const struct model *model, int node, int directory)
{
	while (node != directory && node != ROOT)
		node = model->names[model_name_of(model, node)].parent;
	return node == directory;
}

void model_path(const struct model *model, int name, char *path)
{
	const struct name *entry = &model->names[name];
	size_t length;

	model_path_of(model, entry->parent, path);
	length = strlen(path);
	if (length + strlen(entry->text) + 2 > MAX_PATH)
		errx(1, "the model has a path longer than %d bytes", MAX_PATH);
	path[length] = '/';
	strcpy(path + length + 1, entry->text);
}

void acl_value(const struct acl *acl, unsigned int mode, unsigned char value[ACL_LENGTH])
{
	const struct {
		struct posix_acl_xattr_header header;
		struct posix_acl_xattr_entry entries[5];
	} whole = {
		{ POSIX_ACL_XATTR_VERSION },
		{
			{ ACL_USER_OBJ, (__u16)(mode >> 6 & 7), (__u32)ACL_UNDEFINED_ID },
			{ ACL_USER, (__u16)acl->permissions, acl->uid },
			{ ACL_GROUP_OBJ, (__u16)acl->group, (__u32)ACL_UNDEFINED_ID },
			{ ACL_MASK, (__u16)(mode >> 3 & 7), (__u32)ACL_UNDEFINED_ID },
			{ ACL_OTHER, (__u16)(mode & 7), (__u32)ACL_UNDEFINED_ID },
		},
	};

	_Static_assert(sizeof(whole) == ACL_LENGTH, "nothing lies between the entries");
	memcpy(value, &whole, sizeof(whole));
}

void model_path_of(const struct model *model, int node, char *path)
{
	if (node == ROOT)
		strcpy(path, ".");
	else
		model_path(model, model_name_of(model, node), path);
}

static void have_pages(struct node *node, off_t size)
{
	size_t pages = (size_t)(size + PAGE - 1) / PAGE;

	if (pages <= node->pages)
		return;
	node->page = need(realloc(node->page, pages * sizeof(*node->page)));
	memset(node->page + node->pages, 0, (pages - node->pages) * sizeof(*node->page));
	node->pages = pages;
}

static void drop_page(struct model *model, struct node *node, size_t page)
{
	model->allocated -= node->page[page] != NULL;
	free(node->page[page]);
	node->page[page] = NULL;
}

void data_set(struct model *model, struct node *node, off_t offset, const unsigned char *bytes, size_t length)
{
	have_pages(node, offset + (off_t)length);
	if (offset + (off_t)length > node->size)
		node->size = offset + (off_t)length;
	while (length) {
		size_t page = (size_t)offset / PAGE, at = (size_t)offset % PAGE;
		size_t part = length < PAGE - at ? length : PAGE - at;

		if (!node->page[page]) {
			node->page[page] = need(calloc(1, PAGE));
			model->allocated++;
		}
		memcpy(node->page[page] + at, bytes, part);
		offset += (off_t)part;
		bytes += part;
		length -= part;
	}
}

void data_get(const struct node *node, off_t offset, unsigned char *bytes, size_t length)
{
	for (size_t n = 0; n < length;) {
		size_t page = ((size_t)offset + n) / PAGE, at = ((size_t)offset + n) % PAGE;
		size_t part = length - n < PAGE - at ? length - n : PAGE - at;

		if (page < node->pages && node->page[page])
			memcpy(bytes + n, node->page[page] + at, part);
		else
			memset(bytes + n, 0, part);
		n += part;
	}
}

void data_zero(struct model *model, struct node *node, off_t offset, off_t length)
{
	off_t end = offset + length;

	while (offset < end && (size_t)offset / PAGE < node->pages) {
		size_t page = (size_t)offset / PAGE;
		off_t next = (off_t)(page + 1) * PAGE;
		off_t until = next < end ? next : end;

		if (until - offset == PAGE)
			drop_page(model, node, page);
		else if (node->page[page])
			memset(node->page[page] + offset % PAGE, 0, (size_t)(until - offset));
		offset = until;
	}
}

void data_resize(struct model *model, struct node *node, off_t size)
{
	if (size < node->size)
		data_zero(model, node, size, (off_t)node->pages * PAGE - size);
	have_pages(node, size);
	node->size = size;
}

void data_collapse(struct model *model, struct node *node, off_t offset, off_t length)
{
	size_t first = (size_t)offset / PAGE, count = (size_t)length / PAGE;

	data_zero(model, node, offset, length);
	memmove(node->page + first, node->page + first + count, (node->pages - first - count) * sizeof(*node->page));
	node->pages -= count;
	node->size -= length;
}

void data_insert(struct node *node, off_t offset, off_t length)
{
	size_t first = (size_t)offset / PAGE, count = (size_t)length / PAGE, old;

	have_pages(node, node->size);
	old = node->pages;
	have_pages(node, (off_t)(old + count) * PAGE);
	memmove(node->page + first + count, node->page + first, (old - first) * sizeof(*node->page));
	memset(node->page + first, 0, count * sizeof(*node->page));
	node->size += length;
}

struct node data_copy(const struct node *node)
{
	struct node copy = *node;

	copy.page = need(calloc(node->pages + 1, sizeof(*copy.page)));
	for (size_t n = 0; n < node->pages; n++)
		if (node->page[n])
			copy.page[n] = memcpy(need(malloc(PAGE)), node->page[n], PAGE);
	return copy;
}

void data_free(struct model *model, struct node *node)
{
	for (size_t n = 0; n < node->pages; n++)
		drop_page(model, node, n);
	free(node->page);
	node->page = NULL;
	node->pages = 0;
}
