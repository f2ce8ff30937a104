/* A file with symbol tables and debug information, and addresses in all of its code. */
#include "own_files.h"

#include <elf.h>
#include <sys/mman.h>

enum { ADDRESSES = 48 };

/* Returns the segment with the code, or one that is likely. */
static Elf64_Phdr code_of(const uint8_t *data, size_t size)
{
    Elf64_Phdr segment = {.p_offset = 0x1000, .p_filesz = ADDRESSES * 4};
    Elf64_Ehdr header;

    if (size < sizeof header)
        return segment;
    memcpy(&header, data, sizeof header);
    for (uint64_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr found;
        if (header.e_phoff > size || size - header.e_phoff < (i + 1) * sizeof found)
            break;
        memcpy(&found, data + header.e_phoff + i * sizeof found, sizeof found);
        if (found.p_type == PT_LOAD && found.p_flags & PF_X)
            return found;
    }
    return segment;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct file_opener opener = {.open = own_open};
    struct module_symbols module = {.opener = &opener, .lines = true};
    const Elf64_Phdr code = code_of(data, size);

    if (own_module < 0)
        own_module = memfd_create("elf", MFD_CLOEXEC);
    expect(ftruncate(own_module, 0) == 0 && pwrite(own_module, data, size, 0) == (ssize_t)size);
    /* Half of the addresses are in the code, the others anywhere. */
    for (uint64_t i = 0; i < ADDRESSES / 2; i++) {
        own_ask(&module, code.p_offset + code.p_filesz / (ADDRESSES / 2) * i);
        own_ask(&module, size * i / (ADDRESSES / 2));
    }
    expect(!module_symbols_missing(&module).count == !module_symbols_missing(&module).path);
    module_symbols_free(&module);
    return 0;
}
