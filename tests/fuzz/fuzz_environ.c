/* /proc/PID/environ: the variables that jemalloc reads. */
#include "fuzz.h"
#include "jemalloc/conf.h"

#include <stdio.h>
#include <string.h>

static void check_source(const struct conf_source *source, const uint8_t *data, size_t size)
{
    size_t n = strlen(source->name), len = strnlen(source->text, CONF_TEXT_MAX);

    expect(len < CONF_TEXT_MAX);
    if (!source->set)
        return;
    expect(n >= sizeof "MALLOC_CONF" - 1 && memmem(data, size, source->name, n));
    expect(!len || memmem(data, size, source->text, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf conf = {.variable.name = "JE_MALLOC_CONF"};

    conf_parse_environ(&conf, (const char *)data, size);
    check_source(&conf.variable, data, size);
    check_source(&conf.foreign, data, size);
    expect(strcmp(conf.foreign.name, "JE_MALLOC_CONF") != 0);
    return 0;
}
