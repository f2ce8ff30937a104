#include "profile/symbols/module_files.h"
#include "elf/debugfile.h"
#include "elf/minidebug.h"
#include "elf/rootfile.h"
#include "profile/symbols/debuginfod.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const char default_dir[] = "/usr/lib/debug";

static bool same_build_id(const struct build_id *a, const struct build_id *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

int module_files_open_path(const struct symbols_options *options, const char *path)
{
    AUTO_CLOSE int root =
        open(options->root ? options->root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return root < 0 ? -errno : root_open_file(root, path, INROOT_FOLLOW);
}

static int open_mapped(const struct symbols_options *options, const struct symbol_mapping *mapping)
{
    if (options->open)
        return options->open(options->ctx, mapping);
    return mapping->path[0] == '/' ? module_files_open_path(options, mapping->path) : -ENOENT;
}

static enum symbols_lack open_module(struct module_files *files,
                                     const struct symbol_mapping *mapping,
                                     const struct symbols_options *options, int *err)
{
    AUTO_CLOSE int fd = open_mapped(options, mapping);

    if (fd < 0) {
        *err = -fd;
        return fd == -ESTALE ? SYMBOLS_LACK_BUILD_ID : SYMBOLS_LACK_FILE;
    }
    if (!file_build_id(fd, &files->build_id))
        files->build_id.len = 0;
    if (mapping->build_id && !same_build_id(mapping->build_id, &files->build_id))
        return SYMBOLS_LACK_BUILD_ID;
    files->module = object_open(steal_fd(&fd), options->left);
    return files->module ? SYMBOLS_LACK_NOTHING : SYMBOLS_LACK_ELF;
}

/* Takes ownership of the file descriptor. NULL: not an ELF file, or one with another build-id. */
static struct object *open_with_id(int fd, const struct build_id *id,
                                   const struct symbols_options *options)
{
    struct object *object = fd >= 0 ? object_open(fd, options->left) : NULL;
    struct build_id found;

    if (!object || (object_build_id(object, &found) && same_build_id(&found, id)))
        return object;
    object_free(object);
    return NULL;
}

/* Makes dir/.build-id/xx/rest.debug. False: the id is too short, or the path too long. */
static bool build_id_path(char *path, size_t size, const char *dir, const struct build_id *id)
{
    int len = snprintf(path, size, "%s/.build-id/", dir);

    for (size_t i = 0; i < id->len; i++) {
        if (len < 0 || (size_t)len >= size)
            return false;
        len += snprintf(path + len, size - (size_t)len, i == 0 ? "%02x/" : "%02x", id->bytes[i]);
    }
    if (id->len < 2 || len < 0 || (size_t)len >= size)
        return false;
    len += snprintf(path + len, size - (size_t)len, ".debug");
    return (size_t)len < size;
}

static struct object *open_in_dir(const struct symbols_options *options, const char *dir,
                                  const struct build_id *id)
{
    char path[PATH_MAX];

    if (!build_id_path(path, sizeof path, dir, id))
        return NULL;
    return open_with_id(module_files_open_path(options, path), id, options);
}

static struct object *open_in_dirs(const struct symbols_options *options, const struct build_id *id)
{
    const struct symbols_options host = {0};
    struct object *object = NULL;

    for (size_t i = 0; !object && i < options->debug_dir_count; i++)
        object = open_in_dir(&host, options->debug_dirs[i], id);
    if (!object && options->root)
        object = open_in_dir(options, default_dir, id);
    return object;
}

/* Finds the file with a build-id in any of the places; path receives its path. */
static struct object *open_debug(const struct symbols_options *options, const char *path, int fd,
                                 const struct build_id *id, char found[PATH_MAX])
{
    struct debugfile_query query = {
        .target = options->target, .path = path, .fd = fd, .id = id->len ? id : NULL};
    AUTO_FREE struct debugfile *debugfile = calloc(1, sizeof *debugfile);
    struct object *object = open_in_dirs(options, id);

    found[0] = '\0';
    if (object || !debugfile)
        return object;
    if (debugfile_open(&query, debugfile) == 0) {
        memcpy(found, debugfile->path, PATH_MAX);
        return object_open(debugfile->fd, options->left);
    }
    if (options->debuginfod && id->len)
        return open_with_id(debuginfod_open(id), id, options);
    return NULL;
}

/*
 * Opens the supplement named by .gnu_debugaltlink: a path relative to the file
 * that refers to it or to the root, a NUL, and its build-id (dwz(1)).
 */
static struct object *open_linked(const struct symbols_options *options, const char *name,
                                  const char *referrer, const struct build_id *id)
{
    const char *slash = strrchr(referrer, '/');
    AUTO_CLOSE int root = -1;
    char path[PATH_MAX];
    int len;

    if (name[0] == '/' || !slash)
        len = snprintf(path, sizeof path, "%s", name);
    else
        len = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - referrer), referrer, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return NULL;
    root = root_open(options->target);
    struct object *object =
        root < 0 ? NULL : open_with_id(root_open_file(root, path, INROOT_FOLLOW), id, options);
    return object ? object : open_with_id(module_files_open_path(options, path), id, options);
}

static struct object *open_supplement(const struct symbols_options *options, struct object *object,
                                      const char *referrer)
{
    const Elf64_Shdr *section = object_section_named(object, ".gnu_debugaltlink");
    const char *name = section ? object_section(object, section) : NULL;
    char ignored[PATH_MAX];
    struct build_id id;
    size_t len;

    if (!name)
        return NULL;
    len = strnlen(name, section->sh_size);
    if (len == section->sh_size || section->sh_size - len - 1 > BUILD_ID_MAX)
        return NULL;
    id.len = section->sh_size - len - 1;
    memcpy(id.bytes, name + len + 1, id.len);
    struct object *found = open_linked(options, name, referrer, &id);
    return found ? found : open_debug(options, "", -1, &id, ignored);
}

enum symbols_lack module_files_open(struct module_files *files,
                                    const struct symbol_mapping *mapping,
                                    const struct symbols_options *options, int *err)
{
    enum symbols_lack lack = open_module(files, mapping, options, err);
    char found[PATH_MAX];
    bool complete;
    int fd;

    if (lack)
        return lack;
    complete = object_section_named(files->module, ".symtab") != NULL;
    fd = complete ? -1 : minidebug_open(files->module->fd);
    files->mini = fd < 0 ? NULL : object_open(fd, options->left);
    snprintf(found, sizeof found, "%s", mapping->path);
    complete = complete && object_section_named(files->module, ".debug_info");
    if (!complete)
        files->debug =
            open_debug(options, mapping->path, files->module->fd, &files->build_id, found);
    if (!options->no_inlines)
        files->supplement =
            open_supplement(options, files->debug ? files->debug : files->module, found);
    return SYMBOLS_LACK_NOTHING;
}

void module_files_close(struct module_files *files)
{
    object_free(files->module);
    object_free(files->mini);
    object_free(files->debug);
    object_free(files->supplement);
}

/* Makes the path of an attempt. Returns its length as snprintf does; -1: there is none. */
static int split_path(char path[PATH_MAX], const char *module, const char *dir, const char *name,
                      unsigned attempt)
{
    const char *slash = strrchr(module, '/'), *last = name ? strrchr(name, '/') : NULL;
    int folder = slash ? (int)(slash - module) : 0;

    if (!name)
        return attempt ? -1 : snprintf(path, PATH_MAX, "%s.dwp", module);
    if (attempt == 0)
        return name[0] == '/' || !dir ? snprintf(path, PATH_MAX, "%s", name)
                                      : snprintf(path, PATH_MAX, "%s/%s", dir, name);
    if (attempt == 1 && name[0] != '/')
        return snprintf(path, PATH_MAX, "%.*s/%s", folder, module, name);
    if (attempt <= 2)
        return snprintf(path, PATH_MAX, "%.*s/%s", folder, module, last ? last + 1 : name);
    return -1;
}

int module_files_open_split(const char *module, const struct symbols_options *options,
                            const char *dir, const char *name, unsigned attempt)
{
    AUTO_CLOSE int root = root_open(options->target);
    char path[PATH_MAX];
    int len = split_path(path, module, dir, name, attempt / 2);

    if (len < 0)
        return -EDOM;
    if (len >= PATH_MAX)
        return -ENAMETOOLONG;
    if (attempt % 2)
        return module_files_open_path(options, path);
    return root < 0 || !options->target ? -ENOENT : root_open_file(root, path, INROOT_FOLLOW);
}
