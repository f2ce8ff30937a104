/*
 * A program and its DWARF package: the input begins with the program's length in four
 * bytes. The package is found where the program's is sought, and as each split file.
 */
#include "own_files.h"
#include "profile/symbols/dwp_index.h"

#include <sys/mman.h>

enum { ADDRESSES = 48 };

static void fill(int fd, const uint8_t *data, size_t size)
{
    expect(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void look_up(void)
{
    const struct file_opener opener = {.open = own_open};
    struct module_symbols module = {.opener = &opener, .lines = true};

    for (uint64_t i = 0; i < ADDRESSES; i++)
        own_ask(&module, (i % 2 ? 0x1000 : 0x200) + i / 2 * 7);
    expect(!module_symbols_missing(&module).count == !module_symbols_missing(&module).path);
    module_symbols_free(&module);
}
static void look_into_index(const uint8_t *data, size_t size)
{
    struct dwp_unit unit;
    uint64_t id;

    for (size_t at = 16; at + sizeof id <= size && at < 1024; at += sizeof id) {
        memcpy(&id, data + at, sizeof id);
        if (dwp_find(data, size, id, &unit))
            expect(unit.has[DWP_INFO] && unit.has[DWP_ABBREV]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t len;

    look_into_index(data, size);
    if (size < sizeof len)
        return 0;
    memcpy(&len, data, sizeof len);
    if (len > size - sizeof len)
        return 0;
    if (own_module < 0) {
        own_module = memfd_create("program", MFD_CLOEXEC);
        own_split = memfd_create("package", MFD_CLOEXEC);
    }
    fill(own_module, data + sizeof len, len);
    fill(own_split, data + sizeof len + len, size - sizeof len - len);
    look_up();
    return 0;
}
