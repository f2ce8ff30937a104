/* Addresses of the test's own functions, and the reason if a file is not available. */
#include "check.h"
#include "own.h"
#include "profile/symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

__attribute__((noinline)) int probed_function(int x);

int probed_function(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

static struct own own;
static char path[PATH_MAX];
static struct symbol_mapping mapping;

static uint64_t probed(void)
{
    return (uint64_t)(uintptr_t)probed_function;
}

/* The executable mapping of the test itself, from its maps. */
static bool find_mapping(void)
{
    AUTO_FREE char *text = NULL;
    ssize_t len = procfs_slurp(&own.proc, &text, 1 << 20, "self/maps");
    struct cursor maps = cursor_of(text, len > 0 ? (size_t)len : 0);
    struct map_entry entry;

    while (parse_map_line(&maps, &entry) != 0)
        if (probed() >= entry.start && probed() < entry.end && entry.path_len < sizeof path) {
            memcpy(path, entry.path, entry.path_len);
            mapping = (struct symbol_mapping){
                .start = entry.start, .end = entry.end, .offset = entry.offset, .path = path};
        }
    return mapping.start != 0;
}

static bool names_probe(struct symbols *symbols, const struct symbol_line **lines)
{
    return symbols_lines(symbols, probed(), lines) == 1 &&
           strcmp((*lines)->function, "probed_function") == 0 &&
           strcmp((*lines)->linkage, "probed_function") == 0;
}

static bool names_probe_outermost(struct symbols *symbols)
{
    const struct symbol_line *lines;
    size_t count = symbols_lines(symbols, probed(), &lines);
    return count && strcmp(lines[count - 1].function, "probed_function") == 0;
}

static void test_own(void)
{
    const struct symbols_options options = {.no_inlines = true};
    struct symbols *symbols = symbols_new(&mapping, 1, &options);
    const struct symbol_line *lines, *again;
    struct symbols_coverage coverage;
    struct build_id id;

    CHECK(names_probe(symbols, &lines) && names_probe(symbols, &again) && lines == again);
    CHECK(symbols_lines(symbols, mapping.start - 1, &lines) == 0 && !lines);
    CHECK(symbols_lines(symbols, mapping.end, &lines) == 0);
    CHECK(symbols_lines(symbols, 0, &lines) == 0 &&
          symbols_lines(symbols, UINT64_MAX, &lines) == 0);
    CHECK(symbols_coverage(symbols, 0, &coverage) && !symbols_coverage(symbols, 1, &coverage));
    CHECK(strcmp(coverage.path, path) == 0 && coverage.lack == SYMBOLS_LACK_LINES);
    CHECK(coverage.addresses == 1 && coverage.with_function == 1 && coverage.with_line == 0);
    CHECK(symbols_build_id(symbols, mapping.start, &id) && id.len > 0 &&
          !symbols_build_id(symbols, mapping.end, &id));
    symbols_free(symbols);
}

/* Nothing is open or found after the end of the work, if it was to be done once. */
static void test_finish(void)
{
    const struct symbols_options options = {.once = true}, again = {0};
    struct symbols *symbols = symbols_new(&mapping, 1, &options);
    const struct symbol_line *lines;
    struct symbols_coverage coverage;

    CHECK(names_probe_outermost(symbols));
    symbols_finish(symbols);
    CHECK(symbols_lines(symbols, probed(), &lines) == 0 && !lines);
    CHECK(symbols_coverage(symbols, 0, &coverage) && coverage.with_function == 1 &&
          coverage.lack != SYMBOLS_LACK_TABLE);
    symbols_free(symbols);
    symbols = symbols_new(&mapping, 1, &again);
    symbols_finish(symbols);
    CHECK(names_probe_outermost(symbols));
    symbols_free(symbols);
}

/* Requests for a mapping whose file is not the right one, or missing. */
static bool lacks(const struct symbol_mapping *asked, const struct symbols_options *options,
                  enum symbols_lack lack, int err)
{
    struct symbols *symbols = symbols_new(asked, 1, options);
    const struct symbol_line *lines;
    struct symbols_coverage coverage;
    bool none = symbols_lines(symbols, probed(), &lines) == 0;
    bool told = symbols_coverage(symbols, 0, &coverage) && coverage.lack == lack &&
                coverage.err == err && coverage.addresses == 1 && coverage.with_function == 0;

    symbols_free(symbols);
    return none && told;
}

static int open_stale(void *ctx, const struct symbol_mapping *asked)
{
    (void)ctx;
    (void)asked;
    return -ESTALE;
}

static int open_text(void *ctx, const struct symbol_mapping *asked)
{
    (void)ctx;
    (void)asked;
    return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

static void test_refused(void)
{
    const struct symbols_options plain = {0}, stale = {.open = open_stale},
                                 text = {.open = open_text}, root = {.root = "/nonexistent"};
    struct symbol_mapping other = mapping;
    struct build_id id = {.len = 20, .bytes = {1, 2, 3}};

    other.build_id = &id;
    CHECK(lacks(&other, &plain, SYMBOLS_LACK_BUILD_ID, 0));
    CHECK(lacks(&mapping, &stale, SYMBOLS_LACK_BUILD_ID, ESTALE));
    CHECK(lacks(&mapping, &text, SYMBOLS_LACK_ELF, 0));
    CHECK(lacks(&mapping, &root, SYMBOLS_LACK_FILE, ENOENT));
    other = mapping;
    other.path = "/nonexistent";
    CHECK(lacks(&other, &plain, SYMBOLS_LACK_FILE, ENOENT));
    other.path = "[vdso]";
    CHECK(lacks(&other, &plain, SYMBOLS_LACK_FILE, ENOENT));
    other.path = NULL;
    CHECK(lacks(&other, &plain, SYMBOLS_LACK_FILE, ENOENT));
    other.path = "/dev/zero";
    CHECK(lacks(&other, &plain, SYMBOLS_LACK_FILE, EINVAL));
}

/* The build-id in the profile is the file's: it is used. */
static void test_accepted(void)
{
    const struct symbols_options options = {.no_inlines = true};
    struct symbol_mapping stated = mapping;
    struct symbols *symbols = symbols_new(&mapping, 1, &options);
    const struct symbol_line *lines;
    struct build_id id;

    CHECK(!symbols_build_id(symbols, mapping.start, &id)); /* it is not looked up for that */
    CHECK(names_probe(symbols, &lines) && symbols_build_id(symbols, mapping.start, &id));
    symbols_free(symbols);
    stated.build_id = &id;
    symbols = symbols_new(&stated, 1, &options);
    CHECK(names_probe(symbols, &lines));
    symbols_free(symbols);
}

static void test_live(void)
{
    struct symbols_target live = {&own.modules, &own.target, &own.memory, NULL};
    const struct symbols_options options = {
        .open = symbols_open_in_target, .ctx = &live, .target = &own.target};
    struct symbol_mapping asked = mapping;
    struct symbols *symbols;
    const struct symbol_line *lines;

    asked.path = "/gone/and/deleted"; /* found by its address nevertheless */
    symbols = symbols_new(&asked, 1, &options);
    CHECK(names_probe(symbols, &lines));
    symbols_free(symbols);
}

static void test_many_mappings(void)
{
    const struct symbols_options options = {.no_inlines = true};
    struct symbol_mapping all[] = {
        {.start = mapping.end, .end = mapping.end + 0x1000, .path = "/nonexistent/b"},
        mapping,
        {.start = mapping.start - 0x1000, .end = mapping.start, .path = path},
        {.start = 0x1000, .end = 0x2000, .path = ""},
    };
    struct symbols *symbols = symbols_new(all, 4, &options);
    const struct symbol_line *lines;
    struct symbols_coverage coverage;
    struct build_id id;
    size_t modules = 0;

    CHECK(names_probe(symbols, &lines));
    CHECK(symbols_lines(symbols, mapping.end, &lines) == 0);
    while (symbols_coverage(symbols, modules, &coverage))
        modules++;
    CHECK(modules == 3); /* two mappings of one file */
    CHECK(symbols_build_id(symbols, mapping.start, &id) &&
          symbols_build_id(symbols, all[2].start, &id));
    CHECK(!symbols_build_id(symbols, all[0].start, &id) &&
          !symbols_build_id(symbols, all[3].start, &id));
    symbols_free(symbols);
}

int main(void)
{
    CHECK(probed_function(1) == 2);
    if (CHECK(own_open(&own)) && CHECK(find_mapping())) {
        test_own();
        test_finish();
        test_refused();
        test_accepted();
        test_live();
        test_many_mappings();
    }
    own_close(&own);
    return check_result();
}
