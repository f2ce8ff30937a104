/* Source files: lines, and what is not read. */
#include "check.h"
#include "profile/symbols/source_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool line_is(const struct source_file *source, size_t number, const char *wanted)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool good;

    if (!out)
        return false;
    source_file_write_line(source, number, out);
    good = fclose(out) == 0 && strcmp(text, wanted) == 0;
    free(text);
    return good;
}

static void test_split(void)
{
    static const struct {
        const char *text;
        size_t len, lines;
        const char *last;
    } cases[] = {
        {"", 0, 0, ""},           {"a", 1, 1, "a"},          {"a\n", 2, 1, "a"},
        {"a\n\n", 3, 2, ""},      {"a\r\nb\r\n", 6, 2, "b"}, {"x\0y\x1b[2J\n", 8, 1, "x?y?[2J"},
        {"\n\n\tz", 4, 3, "\tz"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct source_file source = {0};
        char *text = malloc(cases[i].len + 1);
        if (!CHECK(text))
            return;
        memcpy(text, cases[i].text, cases[i].len);
        CHECK(source_file_split(&source, text, cases[i].len) == 0);
        CHECK(source.line_count == cases[i].lines);
        CHECK(source.line_count == 0 || line_is(&source, source.line_count, cases[i].last));
        source_file_free(&source);
    }
}

static bool write_file(const char *directory, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static int read_in(const char *root, const char *path)
{
    const struct symbols_options options = {.root = root};
    struct source_file source;
    int err = source_file_read(&source, &options, path);

    CHECK(err || source.line_count > 0);
    source_file_free(&source);
    return err;
}

/* Below a root, links stay in it; devices, FIFOs and directories are never opened. */
static void test_read(void)
{
    char root[] = "/tmp/test_source_file.XXXXXX", path[256];

    if (!CHECK(mkdtemp(root)) || !CHECK(write_file(root, "only-in-this-root.c", "int x;\n")))
        return;
    CHECK(read_in(root, "/only-in-this-root.c") == 0);
    snprintf(path, sizeof path, "%s/only-in-this-root.c", root);
    CHECK(read_in(root, path) == ENOENT); /* on the host it exists */
    CHECK(read_in(NULL, path) == 0);
    CHECK(chmod(path, 0640) == 0 && read_in(NULL, path) == (geteuid() == 0 ? EPERM : 0));
    CHECK(read_in(root, "/only-in-this-root.c") == (geteuid() == 0 ? EPERM : 0));
    CHECK(chmod(path, 0644) == 0);
    CHECK(read_in(root, "only-in-this-root.c") == ENOENT); /* relative to nobody knows what */
    CHECK(read_in(root, "/nothing-of-that-name.c") == ENOENT);
    CHECK(read_in(NULL, "/only-in-this-root.c") == ENOENT);
    snprintf(path, sizeof path, "%s/fifo", root);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(read_in(NULL, path) == EINVAL);
    CHECK(read_in(NULL, "/dev/zero") == EINVAL);
    CHECK(read_in(NULL, root) == EINVAL);
    unlink(path);
    snprintf(path, sizeof path, "%s/large.c", root);
    CHECK(write_file(root, "large.c", "x") && truncate(path, SOURCE_SIZE_MAX + 1) == 0);
    CHECK(read_in(root, "/large.c") == EFBIG);
    unlink(path);
    snprintf(path, sizeof path, "%s/only-in-this-root.c", root);
    unlink(path);
    rmdir(root);
}

int main(void)
{
    test_split();
    test_read();
    return check_result();
}
