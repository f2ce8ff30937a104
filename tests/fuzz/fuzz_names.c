/* A jemalloc name and a value, as an operator may write them. */
#include "cli/value.h"
#include "fuzz.h"
#include "jemalloc/names.h"

#include <string.h>

static void use_name(const char *text)
{
    struct build build = {.version = version_parse("5.3.0")};
    const struct ctl_name *name = names_find(text, build.version);
    char out[CTL_NAME_MAX];

    build.config_stats = FACT_YES;
    if (name)
        name_judge(name, text, name_use(name, false), &build);
    expect(!(name && names_begin(text)));
    if (names_suggest(text, build.version, out))
        expect(names_find(out, build.version) != NULL);
    for (size_t i = 0; i < ctl_names_count; i++)
        if (name_covered(&ctl_names[i], text, out))
            expect(names_find(out, (struct version){0}) != NULL);
}

static void use_value(const char *text)
{
    for (enum ctl_type type = CTL_BOOL; type <= CTL_STRUCT; type++) {
        char out[40];
        uint64_t value;
        if (!value_parse(type, text, &value))
            continue;
        expect(ctl_type_size(type) == 8 || value >> (8 * ctl_type_size(type)) == 0);
        value_format(type, value, NULL, out, sizeof out);
        expect(strlen(out) > 0 && strlen(out) < sizeof out - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    expect(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    use_name(text);
    use_value(text);
    free(text);
    return 0;
}
