#include "profile/symbols/module_files.h"
#include "base/library.h"
#include "elf/debugfile.h"
#include "elf/image.h"
#include "elf/minidebug.h"
#include "elf/modulefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Fetches debug files from the servers that $DEBUGINFOD_URLS names, through
 * elfutils' libdebuginfod.
 */

/* As in <elfutils/debuginfod.h>, which is in a separate package. No static program has them. */
#pragma weak debuginfod_begin
#pragma weak debuginfod_find_debuginfo
#pragma weak debuginfod_end
struct client;
struct client *debuginfod_begin(void);
int debuginfod_find_debuginfo(struct client *client, const unsigned char *id, int len, char **path);
void debuginfod_end(struct client *client);

struct library {
    __typeof__(debuginfod_begin) *begin;
    __typeof__(debuginfod_find_debuginfo) *find;
    __typeof__(debuginfod_end) *end;
};

/*
 * Fetches the debug file with a build-id. Returns a file descriptor, owned by
 * the caller, or -errno; -ENOSYS: the library is not installed. The caller must
 * verify the file.
 */
static int debuginfod_open(const struct build_id *id)
{
    void *handle = library_open("libdebuginfod.so.1");
    struct library library;
    struct client *client;
    int fd;

    if (!handle)
        return -ENOSYS;
#define RESOLVE(name, function)                                                                    \
    if (!(library.name = LIBRARY_FUNCTION(handle, function)))                                      \
        return -ENOSYS;
    RESOLVE(begin, debuginfod_begin)
    RESOLVE(find, debuginfod_find_debuginfo)
    RESOLVE(end, debuginfod_end)
#undef RESOLVE
    /* The library's own limits, in seconds, unless the operator has set them (debuginfod(8)). */
    setenv("DEBUGINFOD_TIMEOUT", "10", 0); /* without progress */
    setenv("DEBUGINFOD_MAXTIME", "60", 0); /* for one file */
    client = library.begin();
    if (!client)
        return -ENOMEM;
    fd = library.find(client, id->bytes, (int)id->len, NULL);
    library.end(client);
    return fd;
}

static const char default_dir[] = "/usr/lib/debug";

/*
 * Opens a regular file by its path in the root of the options; links do not lead
 * out of it. Returns a file descriptor, which the caller closes, or -errno.
 */
static int module_files_open_path(const struct symbols_options *options, const char *path)
{
    AUTO_CLOSE int root =
        open(options->root ? options->root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return root < 0 ? -errno : root_open_file(root, path, INROOT_FOLLOW);
}

/* Keeps a file descriptor if it is of an ELF file with the build-id; else closes it. */
static int with_id(int fd, const struct build_id *id)
{
    struct build_id found;

    if (fd < 0 || (debugfile_build_id(fd, &found) && build_id_equal(&found, id)))
        return fd;
    close(fd);
    return -ENOENT;
}

/* Opens dir/.build-id/xx/rest.debug. */
static int open_in_dir(const struct symbols_options *options, const char *dir,
                       const struct build_id *id)
{
    char path[PATH_MAX], text[BUILD_ID_TEXT];
    int len;

    if (id->len < 2)
        return -ENOENT;
    build_id_text(id, text);
    len = snprintf(path, sizeof path, "%s/.build-id/%.2s/%s.debug", dir, text, text + 2);
    return len > 0 && (size_t)len < sizeof path ? with_id(module_files_open_path(options, path), id)
                                                : -ENOENT;
}

static int open_in_dirs(const struct symbols_options *options, const struct build_id *id)
{
    const struct symbols_options host = {0};
    int fd = -ENOENT;

    for (size_t i = 0; fd < 0 && i < options->debug_dir_count; i++)
        fd = open_in_dir(&host, options->debug_dirs[i], id);
    if (fd < 0 && options->root)
        fd = open_in_dir(options, default_dir, id);
    return fd;
}

/*
 * Opens the debug file of a module, or, without its fd, the file with a build-id, in any of the
 * places. *found, if not NULL, is set to its path, which the caller frees.
 */
static int open_debug(const struct symbols_options *options, const char *path, int module,
                      const struct build_id *id, char **found)
{
    struct debugfile_query query = {
        .target = options->target, .path = path, .fd = module, .id = id->len ? id : NULL};
    AUTO_FREE struct debugfile *debugfile = calloc(1, sizeof *debugfile);
    int fd = open_in_dirs(options, id), rc;

    if (fd >= 0 || !debugfile)
        return fd;
    rc = debugfile_open(&query, debugfile);
    if (rc)
        return options->debuginfod && id->len ? with_id(debuginfod_open(id), id) : rc;
    if (found)
        *found = strdup(debugfile->path);
    return debugfile->fd;
}

/* dwz's name is a path relative to the file that refers to it, or to the root. */
static int open_supplement_of(const struct symbols_options *options, const char *referrer,
                              const struct file_wanted *wanted)
{
    const char *slash = strrchr(referrer, '/');
    char path[PATH_MAX];
    int len, fd;

    if (!wanted->name || !wanted->id)
        return -ENOENT;
    if (wanted->name[0] == '/' || !slash)
        len = snprintf(path, sizeof path, "%s", wanted->name);
    else
        len =
            snprintf(path, sizeof path, "%.*s/%s", (int)(slash - referrer), referrer, wanted->name);
    if (len < 0 || (size_t)len >= sizeof path)
        return -ENAMETOOLONG;
    AUTO_CLOSE int root = root_open(options->target);
    fd = root < 0 ? -ENOENT : with_id(root_open_file(root, path, INROOT_FOLLOW), wanted->id);
    if (fd < 0)
        fd = with_id(module_files_open_path(options, path), wanted->id);
    return fd < 0 ? open_debug(options, "", -1, wanted->id, NULL) : fd;
}

/* Makes the path of an attempt. Returns its length as snprintf does; -1: there is none. */
static int split_path(char path[PATH_MAX], const char *module, const char *dir, const char *name,
                      unsigned attempt)
{
    const char *slash = strrchr(module, '/'), *last = name ? strrchr(name, '/') : NULL;
    int folder = slash ? (int)(slash - module) : 0;

    if (!name)
        return -1;
    if (attempt == 0)
        return name[0] == '/' || !dir ? snprintf(path, PATH_MAX, "%s", name)
                                      : snprintf(path, PATH_MAX, "%s/%s", dir, name);
    if (attempt == 1 && name[0] != '/')
        return snprintf(path, PATH_MAX, "%.*s/%s", folder, module, name);
    if (attempt <= 2)
        return snprintf(path, PATH_MAX, "%.*s/%s", folder, module, last ? last + 1 : name);
    return -1;
}

/*
 * Opens a file of split DWARF, in the root of the target or of the options: its name below the
 * directory where the compiler was, then beside the module. -EDOM: there is no other place. The
 * target has chosen all names, so nothing is opened beside its root.
 */
static int open_split_file_of(const char *module, const struct symbols_options *options,
                              const struct file_wanted *wanted)
{
    AUTO_CLOSE int root = root_open(options->target);
    char path[PATH_MAX];
    int len = split_path(path, module, wanted->dir, wanted->name, wanted->attempt / 2);

    if (len < 0)
        return -EDOM;
    if (len >= PATH_MAX)
        return -ENAMETOOLONG;
    if (wanted->attempt % 2)
        return options->target && !options->root ? -ENOENT : module_files_open_path(options, path);
    return root < 0 || !options->target ? -ENOENT : root_open_file(root, path, INROOT_FOLLOW);
}

/* The device says nothing: overlays and btrfs show another one in the maps. */
static enum symbols_doubt doubt_of(int fd, const struct symbol_mapping *mapping, uint64_t time_ns)
{
    struct stat st;

    if (fstat(fd, &st) || (mapping->inode && st.st_ino != mapping->inode))
        return SYMBOLS_DOUBT_INODE;
    return time_ns && (uint64_t)st.st_mtim.tv_sec > time_ns / 1000000000 ? SYMBOLS_DOUBT_TIME
                                                                         : SYMBOLS_DOUBT_NONE;
}

static int open_named(const char *path)
{
    AUTO_CLOSE int named = open(path, O_PATH | O_CLOEXEC);

    return named < 0 ? -errno : regular_open(named);
}

enum symbols_lack module_files_open(struct module_files *files,
                                    const struct symbol_mapping *mapping,
                                    const struct symbols_options *options, int *err)
{
    if (mapping->file)
        files->fd = open_named(mapping->file);
    else if (options->open)
        files->fd = options->open(options->ctx, mapping);
    else if (mapping->path[0] == '/')
        files->fd = module_files_open_path(options, mapping->path);
    else
        files->fd = -ENOENT;
    if (files->fd < 0) {
        *err = -files->fd;
        return files->fd == -ESTALE ? SYMBOLS_LACK_BUILD_ID : SYMBOLS_LACK_FILE;
    }
    if (!file_build_id(files->fd, &files->build_id))
        files->build_id.len = 0;
    if (!mapping->build_id && !options->open)
        files->doubt = doubt_of(files->fd, mapping, options->time_ns);
    return mapping->build_id && !build_id_equal(mapping->build_id, &files->build_id)
               ? SYMBOLS_LACK_BUILD_ID
               : SYMBOLS_LACK_NOTHING;
}

/*
 * Nothing but a part of a program goes to the child: no file with a secret that the target names,
 * and no memory of others (/proc/kcore, core files).
 */
int module_files_want(struct module_files *files, const char *module,
                      const struct symbols_options *options, const struct file_wanted *wanted)
{
    AUTO_CLOSE int fd = -EINVAL;
    Elf64_Ehdr header;

    switch (wanted->what) {
    case CHANNEL_MODULE:
        fd = fcntl(files->fd, F_DUPFD_CLOEXEC, 0);
        break;
    case CHANNEL_MINI:
        fd = minidebug_open(files->fd);
        break;
    case CHANNEL_DEBUG:
        free(files->referrer);
        files->referrer = NULL;
        fd = open_debug(options, module, files->fd, &files->build_id, &files->referrer);
        break;
    case CHANNEL_SUPPLEMENT:
        fd = open_supplement_of(options, files->referrer ? files->referrer : module, wanted);
        break;
    case CHANNEL_SPLIT:
        fd = open_split_file_of(module, options, wanted);
        break;
    }
    if (fd < 0)
        return fd;
    if (!file_read(fd, 0, &header, sizeof header) || !elf_header_valid(&header) ||
        header.e_type == ET_CORE)
        return -ENOEXEC;
    return steal_fd(&fd);
}

void module_files_close(struct module_files *files)
{
    util_close(&files->fd);
    free(files->referrer);
    files->referrer = NULL;
}
