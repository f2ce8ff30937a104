/*
 * A hash table from keys that lie elsewhere, in a growing list, to their places
 * in that list. Keys come from files that others wrote: the hash is seeded, so
 * that nobody can choose keys that all meet in one slot.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TABLE_NONE = UINT32_MAX };

struct table_slot {
    uint32_t hash;
    uint32_t place; /* TABLE_NONE: free */
};

struct table {
    struct table_slot *slots;
    size_t size, count;
    uint64_t seed;
};

/* Is what lies at a place the key? */
typedef bool (*table_same)(const void *ctx, uint32_t place, const void *key);

void table_init(struct table *table);

/* To be given to table_put: of a number, and of bytes. */
uint64_t table_hash_number(const struct table *table, uint64_t number);
uint64_t table_hash_bytes(const struct table *table, const void *bytes, size_t len);

/*
 * The place of the key; when it is new, `fresh` is stored and returned.
 * TABLE_NONE: out of memory.
 */
uint32_t table_put(struct table *table, uint64_t hash, table_same same, const void *ctx,
                   const void *key, uint32_t fresh);
void table_free(struct table *table);
