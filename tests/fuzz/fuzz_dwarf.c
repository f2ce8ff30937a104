/*
 * The debug information of a program and of its split file: abbreviations, units, line tables,
 * ranges, names. Each section begins with two @ and a letter.
 */
#include "own_files.h"
#include "tests/unit/section_file.h"

#include <sys/mman.h>

enum { ADDRESSES = 48, STEP = 8, CODE = 0x1000 };

struct part {
    char letter;
    const char *name;
};

static const struct part program[] = {
    {'a', ".debug_abbrev"},   {'d', ".debug_addr"},     {'i', ".debug_info"},
    {'l', ".debug_line"},     {'n', ".debug_line_str"}, {'r', ".debug_ranges"},
    {'g', ".debug_rnglists"}, {'s', ".debug_str"},      {'o', ".debug_str_offsets"},
};
static const struct part split[] = {
    {'A', ".debug_abbrev.dwo"},   {'I', ".debug_info.dwo"}, {'L', ".debug_line.dwo"},
    {'G', ".debug_rnglists.dwo"}, {'S', ".debug_str.dwo"},  {'O', ".debug_str_offsets.dwo"},
};

/* Finds the section that begins with a letter. Returns its length; 0: there is none. */
static size_t find_part(const uint8_t *data, size_t size, char letter, const uint8_t **at)
{
    const uint8_t mark[] = {'@', '@', (uint8_t)letter};
    const uint8_t *next, *found = memmem(data, size, mark, sizeof mark);

    if (!found)
        return 0;
    *at = found + sizeof mark;
    size -= (size_t)(*at - data);
    next = memmem(*at, size, mark, 2);
    return next ? (size_t)(next - *at) : size;
}

/* False: the input has none of the sections. */
static bool make_file(int fd, const struct part *parts, size_t count, const uint8_t *data,
                      size_t size)
{
    struct section_file file;
    bool any = false;

    section_file_begin(&file);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = NULL;
        size_t len = find_part(data, size, parts[i].letter, &at);
        if (len)
            section_file_add(&file, parts[i].name, SHT_PROGBITS, at, len);
        any = any || len;
    }
    file.note = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = CODE};
    section_file_end(&file);
    expect(ftruncate(fd, 0) == 0 && pwrite(fd, file.bytes, file.len, 0) == (ssize_t)file.len);
    section_file_free(&file);
    return any;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int split_file = -1;
    const struct file_opener opener = {.open = own_open};
    struct module_symbols module = {.opener = &opener, .lines = true};

    if (own_module < 0) {
        own_module = memfd_create("program", MFD_CLOEXEC);
        split_file = memfd_create("split", MFD_CLOEXEC);
    }
    if (!make_file(own_module, program, ARRAY_LEN(program), data, size))
        return -1;
    own_split = make_file(split_file, split, ARRAY_LEN(split), data, size) ? split_file : -1;
    for (uint64_t i = 0; i < ADDRESSES; i++)
        own_ask(&module, i * STEP);
    expect(!module_symbols_missing(&module).count == !module_symbols_missing(&module).path);
    module_symbols_free(&module);
    return 0;
}
