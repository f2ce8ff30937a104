/*
 * Names of split files and supplements, as a module's debug information has them: module,
 * directory, name and build-id end at a NUL; the first byte chooses what is wanted. The root
 * has one file, and links that would lead out of it.
 */
#include "fuzz.h"
#include "profile/symbols/module_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { ATTEMPTS = 8 };

static char root[PATH_MAX];
static struct stat only;

static void make_root(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(root, sizeof root, "%s/jeattach-fuzz.XXXXXX", parent ? parent : "/tmp");
    expect(mkdtemp(root) != NULL);
    AUTO_CLOSE int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    expect(dir >= 0 && mkdirat(dir, "d", 0700) == 0);
    AUTO_CLOSE int file = openat(dir, "d/f.dwo", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    expect(file >= 0 && fstat(file, &only) == 0);
    expect(symlinkat("/", dir, "d/l") == 0 && symlinkat("../../../..", dir, "d/u") == 0);
}

static void remove_root(void)
{
    static const char *const names[] = {"d/f.dwo", "d/l", "d/u"};
    AUTO_CLOSE int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)unlinkat(dir, names[i], 0);
    (void)unlinkat(dir, "d", AT_REMOVEDIR);
    (void)rmdir(root);
}

/* Takes the next text of the input, or what is left of it. */
static char *take_text(const uint8_t **data, size_t *size)
{
    char *text = strndup((const char *)*data, *size);
    size_t len;

    expect(text != NULL);
    len = strlen(text) + (strlen(text) < *size);
    *data += len;
    *size -= len;
    return text;
}

static void want(const char *module, struct file_wanted *wanted)
{
    const struct symbols_options options = {.root = root};
    struct module_files files = {.fd = -1};

    for (wanted->attempt = 0; wanted->attempt < ATTEMPTS; wanted->attempt++) {
        AUTO_CLOSE int fd = module_files_want(&files, module, &options, wanted);
        struct stat st;
        expect(fd >= 0 || fd > -4096);
        if (fd >= 0 && wanted->what == CHANNEL_SPLIT)
            expect(fstat(fd, &st) == 0 && st.st_ino == only.st_ino && st.st_dev == only.st_dev);
        if (fd == -EDOM || wanted->what != CHANNEL_SPLIT)
            break;
    }
    module_files_close(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct build_id id = {.len = 0};
    struct file_wanted wanted = {.id = &id};
    uint8_t first;

    if (!size)
        return -1;
    if (!*root) {
        make_root();
        expect(atexit(remove_root) == 0);
    }
    first = *data++;
    size--;
    AUTO_FREE char *module = take_text(&data, &size);
    AUTO_FREE char *dir = take_text(&data, &size);
    AUTO_FREE char *name = take_text(&data, &size);
    id.len = size < BUILD_ID_MAX ? size : BUILD_ID_MAX;
    memcpy(id.bytes, data, id.len);
    wanted.what = first & 1 ? CHANNEL_SPLIT : CHANNEL_SUPPLEMENT;
    wanted.dir = first & 2 ? dir : NULL;
    wanted.name = first & 4 ? name : NULL;
    want(module, &wanted);
    return 0;
}
