/*
 * A hash table that maps keys to their indices in a list, which the caller
 * keeps. Keys come from untrusted files: the hash is seeded, so that nobody can
 * choose keys that all have the same slot.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TABLE_NONE = UINT32_MAX };

struct table_slot {
    uint32_t hash;
    uint32_t index; /* TABLE_NONE: free */
};

struct table {
    struct table_slot *slots;
    size_t size, count;
    uint64_t seed;
};

/* True if the list has the key at that index. */
typedef bool (*table_same)(const void *ctx, uint32_t index, const void *key);

void table_init(struct table *table);

/* The finalizer of MurmurHash3: every input bit affects every output bit. */
static inline uint64_t table_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

/* Hashes for table_put. The one of a number is inline: a large profile has millions of frames. */
static inline uint64_t table_hash_number(const struct table *table, uint64_t number)
{
    return table_mix(table_mix(number ^ table->seed) + table->seed);
}
uint64_t table_hash_bytes(const struct table *table, const void *bytes, size_t len);

/*
 * Returns the index of the key; if the key is new, stores and returns `fresh`.
 * TABLE_NONE: out of memory.
 */
uint32_t table_put(struct table *table, uint64_t hash, table_same same, const void *ctx,
                   const void *key, uint32_t fresh);
/* Returns the index of the key; TABLE_NONE: there is none. */
uint32_t table_find(const struct table *table, uint64_t hash, table_same same, const void *ctx,
                    const void *key);
void table_free(struct table *table);
