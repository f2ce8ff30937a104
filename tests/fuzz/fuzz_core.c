/*
 * A core file: any bytes give mappings that can be parsed, and memory that can be read. The files
 * that it names are looked for in an empty directory.
 */
#include "elf/core_memory.h"
#include "elf/faults.h"
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum { READ_MOST = 3 * 4096, PLACES_MOST = 64 };

static int empty_root(void)
{
    static int root = -1;
    char name[] = "/tmp/jeattach-fuzz.XXXXXX";

    if (root >= 0)
        return root;
    expect(mkdtemp(name));
    root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    expect(root >= 0 && rmdir(name) == 0);
    return root;
}

static int file_of(const uint8_t *data, size_t size)
{
    int fd = memfd_create("core", MFD_CLOEXEC);

    expect(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    return fd;
}

static void check_core(const struct core *core)
{
    for (size_t i = 0; i < core->segment_count; i++) {
        expect(core->segments[i].start < core->segments[i].end);
        expect(i == 0 || core->segments[i - 1].end <= core->segments[i].start);
        expect(core_segment_at(core, core->segments[i].start) == &core->segments[i]);
    }
    for (size_t i = 0; i < core->mapping_count; i++) {
        expect(core->mappings[i].start < core->mappings[i].end);
        expect(i == 0 || core->mappings[i - 1].end <= core->mappings[i].start);
        expect(strlen(core->mappings[i].path) < SIZE_MAX);
    }
    expect(strlen(core->name) < sizeof core->name);
}

/* Every byte of memory that is read comes from the input. */
static void read_places(const struct core *core, struct memory *memory)
{
    static unsigned char bytes[READ_MOST];

    for (size_t i = 0; i < core->segment_count && i < PLACES_MOST; i++) {
        const struct core_segment *segment = &core->segments[i];
        uint64_t size = segment->end - segment->start;
        size_t len = size < sizeof bytes ? (size_t)size : sizeof bytes;
        if (memory_read(memory, segment->start, bytes, len))
            expect(segment->dumped > 0);
        memory_read(memory, segment->end - 1, bytes, 16);
    }
    for (size_t i = 0; i < core->mapping_count && i < PLACES_MOST; i++)
        memory_read(memory, core->mappings[i].start, bytes, 64);
}

static void use_core(const struct core *core)
{
    struct procfs none = {-1};
    struct target_record record = {.root = empty_root(), .program = -1};
    struct target target = {.proc = &none, .record = &record, .pidfd = -1};
    struct core_memory source;
    struct modules modules;
    struct memory memory;
    char *maps;

    if (core_maps(core, &maps, &record.maps_len) != 0) {
        free(maps);
        return;
    }
    record.maps = maps;
    if (modules_parse(&modules, maps, record.maps_len)) {
        core_memory_init(&source, core, &modules, &target);
        memory_open_source(&memory, &source.source);
        modules_tell_memory(&modules, &memory);
        read_places(core, &memory);
        core_memory_free(&source);
        memory_close(&memory);
        modules_free(&modules);
    }
    free(maps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct core core;
    struct fault fault;

    if (core_open(&core, file_of(data, size), &fault) != FAULT_NONE) {
        expect(fault.code == FAULT_CORE || fault.code == FAULT_FOREIGN_ABI);
        return 0;
    }
    check_core(&core);
    use_core(&core);
    core_close(&core);
    return 0;
}
