#include "elf/unwind_table.h"
#include "elf/image.h"

/*
 * .eh_frame_hdr: version 1; pointer to .eh_frame as pcrel sdata4; number of
 * entries as udata4; table as datarel sdata4 (LSB, "Exception Frames"). Every
 * linker writes this form.
 */
struct eh_frame_hdr {
    uint8_t version, pointer_encoding, count_encoding, table_encoding;
    int32_t eh_frame;
    uint32_t count;
};

enum unwind_table_state unwind_table_find(struct unwind_table *table, struct memory *memory,
                                          const struct module *module)
{
    struct image image;
    struct eh_frame_hdr header;

    if (!image_open(&image, memory, module->start))
        return UNWIND_TABLE_UNKNOWN;
    for (size_t i = 0; i < image.phdr_count; i++) {
        remote_addr at = image.phdrs[i].p_vaddr + image.bias;
        if (image.phdrs[i].p_type != PT_GNU_EH_FRAME)
            continue;
        if (!memory_read_cached(memory, at, &header, sizeof header) || header.version != 1 ||
            header.pointer_encoding != 0x1b || header.count_encoding != 0x03 ||
            header.table_encoding != 0x3b)
            return UNWIND_TABLE_UNKNOWN;
        *table = (struct unwind_table){at, at + sizeof header, header.count};
        return UNWIND_TABLE_FOUND;
    }
    return UNWIND_TABLE_NONE;
}

remote_addr unwind_table_search(const struct unwind_table *table, struct memory *memory,
                                remote_addr pc)
{
    uint32_t low = 0, high = table->count;
    remote_addr found = 0;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct unwind_entry entry;
        if (!memory_read_cached(memory, table->entries + (uint64_t)middle * sizeof entry, &entry,
                                sizeof entry))
            return 0;
        if (table->base + (uint64_t)(int64_t)entry.start > pc) {
            high = middle;
            continue;
        }
        found = table->base + (uint64_t)(int64_t)entry.record;
        low = middle + 1;
    }
    return found;
}
