/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugins need of QEMU's plugin interface. QEMU_PLUGIN_VERSION says which one: 1 is that of QEMU 4.2 to
 * 8.1, 3 that of QEMU 9.1 and later. Debian does not ship QEMU's own qemu-plugin.h; names, types and values are
 * those of include/qemu/qemu-plugin.h of QEMU 7.2 and 10.0.
 */
#ifndef QEMU_PLUGIN_H
#define QEMU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if QEMU_PLUGIN_VERSION != 1 && QEMU_PLUGIN_VERSION != 3
#error "QEMU_PLUGIN_VERSION is to be 1 or 3"
#endif
#define QEMU_PLUGIN_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int vcpu, void *data),
					    enum qemu_plugin_cb_flags flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* The longest instruction (Intel SDM, volume 2, section 2.3.11). */
#define INSN_MAX 15

#if QEMU_PLUGIN_VERSION == 1

const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
						void *counter, uint64_t increment);

/* Copy the bytes of an instruction, and return how many these are. */
static inline size_t insn_code(const struct qemu_plugin_insn *insn, uint8_t code[INSN_MAX])
{
	size_t size = qemu_plugin_insn_size(insn);

	size = size < INSN_MAX ? size : INSN_MAX;
	memcpy(code, qemu_plugin_insn_data(insn), size);
	return size;
}

#else

struct qemu_plugin_scoreboard;

typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;

size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
uint64_t qemu_plugin_u64_sum(qemu_plugin_u64 entry);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
							 qemu_plugin_u64 entry, uint64_t increment);

static inline size_t insn_code(const struct qemu_plugin_insn *insn, uint8_t code[INSN_MAX])
{
	return qemu_plugin_insn_data(insn, code, INSN_MAX);
}

/* What a plugin hears of loads and stores, and reads of registers. */

typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_hwaddr;
struct qemu_plugin_register;

enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

/* GLib's public parts of GArray and GByteArray (glib/garray.h); QEMU is linked with GLib. */
typedef struct {
	char *data;
	unsigned int len;
} GArray;

typedef struct {
	uint8_t *data;
	unsigned int len;
} GByteArray;

GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *array, unsigned int length);

typedef struct {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
} qemu_plugin_reg_descriptor;

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id, unsigned int vcpu));
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*cb)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address,
						 void *data),
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *data);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
_Bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
_Bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
GArray *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *value);

#endif

#endif
