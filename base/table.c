#include "base/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { TABLE_FIRST = 64 };

uint64_t table_hash_bytes(const struct table *table, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t hash = table->seed ^ len, word;

    for (; len >= sizeof word; p += sizeof word, len -= sizeof word) {
        memcpy(&word, p, sizeof word);
        hash = table_mix(hash ^ word) + table->seed;
    }
    word = 0;
    memcpy(&word, p, len);
    return table_mix(hash ^ word);
}

void table_init(struct table *table)
{
    memset(table, 0, sizeof *table);
    if (getrandom(&table->seed, sizeof table->seed, GRND_NONBLOCK) != sizeof table->seed)
        table->seed = (uintptr_t)table;
}

/* Returns the slot of the key, or the free one where it would be. */
static struct table_slot *slot_of(const struct table *table, uint32_t hash, table_same same,
                                  const void *ctx, const void *key)
{
    for (size_t at = hash & (table->size - 1);; at = (at + 1) & (table->size - 1)) {
        struct table_slot *slot = &table->slots[at];
        if (slot->index == TABLE_NONE || (slot->hash == hash && same(ctx, slot->index, key)))
            return slot;
    }
}

uint32_t table_find(const struct table *table, uint64_t hash, table_same same, const void *ctx,
                    const void *key)
{
    return table->size ? slot_of(table, (uint32_t)hash, same, ctx, key)->index : TABLE_NONE;
}

uint32_t table_put(struct table *table, uint64_t hash, table_same same, const void *ctx,
                   const void *key, uint32_t fresh)
{
    struct table_slot *slot;

    if (table->count >= table->size / 2) {
        const struct table old = *table;
        size_t size = old.size ? old.size * 2 : TABLE_FIRST;
        struct table_slot *slots = reallocarray(NULL, size, sizeof *slots);
        if (!slots)
            return TABLE_NONE;
        memset(slots, 0xff, size * sizeof *slots);
        table->slots = slots;
        table->size = size;
        for (size_t i = 0; i < old.size; i++) {
            size_t at = old.slots[i].hash & (size - 1);
            if (old.slots[i].index == TABLE_NONE)
                continue;
            while (slots[at].index != TABLE_NONE)
                at = (at + 1) & (size - 1);
            slots[at] = old.slots[i];
        }
        free(old.slots);
    }
    slot = slot_of(table, (uint32_t)hash, same, ctx, key);
    if (slot->index == TABLE_NONE) {
        *slot = (struct table_slot){(uint32_t)hash, fresh};
        table->count++;
    }
    return slot->index;
}

void table_free(struct table *table)
{
    free(table->slots);
    memset(table, 0, sizeof *table);
}
