/* A file with symbol tables and debug information, and addresses in all of its code. */
#include "own_files.h"

#include <sys/mman.h>

enum { ADDRESSES = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct file_opener opener = {.open = own_open};
    struct module_symbols module = {.opener = &opener, .lines = true};

    if (own_module < 0)
        own_module = memfd_create("elf", MFD_CLOEXEC);
    expect(ftruncate(own_module, 0) == 0 && pwrite(own_module, data, size, 0) == (ssize_t)size);
    /* Half of the addresses are in the code according to the header, the others anywhere. */
    for (uint64_t i = 0; i < ADDRESSES; i++)
        own_ask(&module, i < ADDRESSES / 2 ? 0x1000 + i * 7 : size * i / ADDRESSES);
    expect(!module_symbols_missing(&module).count == !module_symbols_missing(&module).path);
    module_symbols_free(&module);
    return 0;
}
