/* A file with symbol tables and debug information, and addresses in all of its code. */
#include "fuzz.h"
#include "profile/symbols/symbols.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum { ADDRESSES = 48 };

static int file = -1;

static int open_file(void *ctx, const struct symbol_mapping *mapping)
{
    int fd = fcntl(file, F_DUPFD_CLOEXEC, 0);

    (void)ctx;
    expect(mapping->path && fd >= 0);
    return fd;
}

/* Half of the addresses are in the code according to the header, the others anywhere. */
static void ask(struct symbols *symbols, uint64_t size)
{
    for (uint64_t i = 0; i < ADDRESSES; i++) {
        const struct symbol_line *lines, *again;
        uint64_t address = i < ADDRESSES / 2 ? 0x1000 + i * 7 : size * i / ADDRESSES;
        size_t count = symbols_lines(symbols, address, &lines);
        expect(symbols_lines(symbols, address, &again) == count && again == lines);
        for (size_t j = 0; j < count; j++) {
            expect(lines[j].function && *lines[j].function);
            expect(lines[j].linkage && strlen(lines[j].linkage) < SYMBOL_NAME_MAX);
            expect(!lines[j].file || strlen(lines[j].file) < SIZE_MAX);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct symbol_mapping mapping = {.end = size, .path = "/module"};
    const struct symbols_options options = {.open = open_file};
    struct symbols_coverage coverage;
    struct symbols *symbols;
    struct build_id id;

    if (file < 0)
        file = memfd_create("elf", MFD_CLOEXEC);
    expect(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    symbols = symbols_new(&mapping, 1, &options);
    expect(symbols != NULL);
    ask(symbols, size);
    if (symbols_build_id(symbols, 0, &id))
        expect(id.len > 0 && memmem(data, size, id.bytes, id.len));
    expect(symbols_coverage(symbols, 0, &coverage) && !symbols_coverage(symbols, 1, &coverage));
    expect(symbols_coverage(symbols, 0, &coverage) && coverage.addresses <= ADDRESSES);
    expect(coverage.with_function <= coverage.addresses);
    symbols_free(symbols);
    return 0;
}
