#include "elf/debugfile.h"
#include "attach/target_paths.h"
#include "base/allowance.h"
#include "base/interruptions.h"
#include "elf/modulefile.h"
#include "elf/sections.h"

#include <errno.h>
#include <lzma.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CHECKSUM_BLOCK = 256 << 10, CHECKSUMS_KEPT = 64, UNCHANGED_NS = 100000000 };

static const char debug_root[] = "/usr/lib/debug";

struct search {
    const struct debugfile_query *query;
    struct build_id id;    /* len 0: the module has none */
    bool linked, unsummed; /* unsummed: a checksum was not computed */
    char link[NAME_MAX + 1];
    uint32_t checksum;
    int root;
    struct debugfile *out;
};

/* The name, padded with NULs to a multiple of 4 bytes, then the checksum. */
bool debugfile_link(int fd, char name[NAME_MAX + 1], uint32_t *checksum)
{
    unsigned char data[DEBUGFILE_LINK_MAX];
    struct sections sections;
    Elf64_Shdr section;
    size_t len;

    if (!sections_open(&sections, fd) || !section_named(&sections, ".gnu_debuglink", &section) ||
        !section_in_file(&sections, &section) || section.sh_size > sizeof data ||
        section.sh_flags & SHF_COMPRESSED ||
        !file_read(fd, section.sh_offset, data, section.sh_size))
        return false;
    len = strnlen((const char *)data, section.sh_size);
    size_t at = (len + 4) & ~(size_t)3;
    if (len == 0 || len > NAME_MAX || at + sizeof *checksum > section.sh_size ||
        memchr(data, '/', len))
        return false;
    memcpy(name, data, len + 1);
    memcpy(checksum, data + at, sizeof *checksum);
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Some debug files have the program headers of the module, so the section decides. */
bool debugfile_build_id(int fd, struct build_id *out)
{
    unsigned char notes[256];
    struct sections sections;
    Elf64_Shdr section;

    return file_build_id(fd, out) ||
           (sections_open(&sections, fd) &&
            section_named(&sections, ".note.gnu.build-id", &section) &&
            section_in_file(&sections, &section) && section.sh_size <= sizeof notes &&
            file_read(fd, section.sh_offset, notes, section.sh_size) &&
            notes_build_id(notes, section.sh_size, out));
}

/* The checksums that were computed last. */
static struct checksum {
    bool made;
    struct stat of;
    uint32_t value;
} checksums[CHECKSUMS_KEPT];
static size_t checksums_made;

static struct allowance summed = {
    .max = DEBUGFILE_RUN_MAX, .per_second = DEBUGFILE_PER_SECOND, .small = DEBUGFILE_SMALL};

static bool is_same_content(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The CRC-32 of the whole file (ISO 3309), which liblzma provides. */
static bool compute_checksum(int fd, uint64_t size, uint32_t *value)
{
    AUTO_FREE unsigned char *block = malloc(CHECKSUM_BLOCK);
    const sig_atomic_t begun = interruptions();

    *value = 0;
    if (!block || size > DEBUGFILE_CHECKSUM_MAX || !allowance_take(&summed, size))
        return false;
    for (uint64_t done = 0; done < size;) {
        size_t n = size - done < CHECKSUM_BLOCK ? (size_t)(size - done) : CHECKSUM_BLOCK;
        if (interruptions_ended(begun) || !file_read(fd, done, block, n))
            return false;
        *value = lzma_crc32(block, n, *value);
        done += n;
    }
    return true;
}

static bool checksum_agrees(struct search *search, int fd, const struct stat *st)
{
    const uint32_t wanted = search->checksum;
    struct timespec now;
    uint32_t value;

    for (size_t i = 0; i < CHECKSUMS_KEPT; i++)
        if (checksums[i].made && is_same_content(&checksums[i].of, st))
            return checksums[i].value == wanted;
    if (!compute_checksum(fd, (uint64_t)st->st_size, &value)) {
        search->unsummed = true;
        return false;
    }
    /* Times of files are as coarse as a tick: a file may change again without a trace until then.
     */
    clock_gettime(CLOCK_REALTIME, &now);
    const bool lasts =
        (now.tv_sec - st->st_ctim.tv_sec) * 1000000000 + now.tv_nsec - st->st_ctim.tv_nsec >
        UNCHANGED_NS;
    checksums[checksums_made++ % CHECKSUMS_KEPT] = (struct checksum){lasts, *st, value};
    return value == wanted;
}

static bool matches_module(struct search *search, int fd, enum debugfile_way way)
{
    struct build_id id;
    struct stat st, module;
    char magic[SELFMAG];

    if (fstat(fd, &st))
        return false;
    if (search->query->fd >= 0 && fstat(search->query->fd, &module) == 0 &&
        module.st_dev == st.st_dev && module.st_ino == st.st_ino)
        return false;
    if (!file_read(fd, 0, magic, SELFMAG) || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return false;
    if (search->id.len && debugfile_build_id(fd, &id))
        return id.len == search->id.len && memcmp(id.bytes, search->id.bytes, id.len) == 0;
    return way == DEBUGFILE_LINK && checksum_agrees(search, fd, &st);
}

/* True if the file at out->path is the debug file of the module. */
static bool try_path(struct search *search, enum debugfile_way way)
{
    AUTO_CLOSE int fd = root_open_file(search->root, search->out->path, INROOT_FOLLOW);

    if (fd < 0 || !matches_module(search, fd, way))
        return false;
    search->out->fd = steal_fd(&fd);
    search->out->way = way;
    return true;
}

static bool try_build_id(struct search *search)
{
    char text[BUILD_ID_TEXT];

    if (search->id.len < 2)
        return false;
    build_id_text(&search->id, text);
    snprintf(search->out->path, PATH_MAX, "%s/.build-id/%.2s/%s.debug", debug_root, text, text + 2);
    return try_path(search, DEBUGFILE_BUILD_ID);
}

/* before: the module's directory with its slash; after: the name. */
static bool try_link(struct search *search, const char *before, const char *after)
{
    const char *path = search->query->path, *slash = strrchr(path, '/');
    int n;

    if (path[0] != '/')
        return false;
    n = snprintf(search->out->path, PATH_MAX, "%s%.*s/%s%s", before, (int)(slash - path), path,
                 after, search->link);
    return n < PATH_MAX && try_path(search, DEBUGFILE_LINK);
}

static bool search_root(struct search *search, const struct target *target, bool host)
{
    AUTO_CLOSE int root = root_open(target);

    search->root = root;
    search->out->host = host;
    if (root < 0)
        return false;
    if (try_build_id(search))
        return true;
    if (!search->linked)
        return false;
    if (!host && (try_link(search, "", "") || try_link(search, "", ".debug/")))
        return true;
    return try_link(search, debug_root, "");
}

int debugfile_open(const struct debugfile_query *query, struct debugfile *out)
{
    struct search search = {.query = query, .out = out};

    *out = (struct debugfile){.fd = -1};
    if (query->id)
        search.id = *query->id;
    else if (query->fd < 0 || !file_build_id(query->fd, &search.id))
        search.id.len = 0;
    search.linked = query->fd >= 0 && debugfile_link(query->fd, search.link, &search.checksum);
    if (!search.id.len && !search.linked)
        return -ENOENT;
    if (search_root(&search, query->target, false))
        return 0;
    if (query->target && target_has_own_root(query->target) && search_root(&search, NULL, true))
        return 0;
    return search.unsummed ? -EDQUOT : -ENOENT;
}
