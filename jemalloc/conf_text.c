#include "jemalloc/conf_text.h"
#include "jemalloc/names.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V(major, minor, bugfix) VERSION_NUMBER(major, minor, bugfix)

/* The options that no name of mallctl shows. CTL_STRING: any value. */
static const struct ctl_name unshown[] = {
    {.pattern = "opt.bin_shards", .type = CTL_STRING, .first = V(5, 2, 0)},
    {.pattern = "opt.calloc_madvise_threshold", .type = CTL_SIZE, .first = V(5, 3, 1)},
    {.pattern = "opt.hpa_hugification_threshold_ratio", .type = CTL_STRING, .first = V(5, 3, 0)},
    {.pattern = "opt.hpa_purge_threshold_ratio", .type = CTL_STRING, .first = V(5, 3, 1)},
    {.pattern = "opt.lg_tcache_max", .type = CTL_SIZE, .first = V(5, 3, 0)},
    {.pattern = "opt.log", .type = CTL_STRING, .first = V(5, 1, 0)},
    {.pattern = "opt.narenas_ratio", .type = CTL_STRING, .first = V(5, 3, 0)},
    {.pattern = "opt.prof_log", .type = CTL_BOOL, .first = V(5, 2, 0)},
    {.pattern = "opt.prof_unbias", .type = CTL_BOOL, .first = V(5, 3, 0)},
    {.pattern = "opt.san_guard_large", .type = CTL_SIZE, .first = V(5, 3, 0)},
    {.pattern = "opt.san_guard_small", .type = CTL_SIZE, .first = V(5, 3, 0)},
    {.pattern = "opt.slab_sizes", .type = CTL_STRING, .first = V(5, 2, 0)},
    {.pattern = "opt.tcache_ncached_max", .type = CTL_STRING, .first = V(5, 3, 1)},
};

static bool is_in_name(char c)
{
    return isascii((unsigned char)c) && (isalnum((unsigned char)c) || c == '_');
}

/* Returns the option of this version, else of another one; NULL: there is none. */
static const struct ctl_name *find_option(const char *name, size_t len, struct version version)
{
    const struct ctl_name *known;
    char text[CTL_NAME_MAX];

    if (snprintf(text, sizeof text, "opt.%.*s", (int)len, name) >= (int)sizeof text)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(unshown); i++)
        if (strcmp(unshown[i].pattern, text) == 0 && name_in_version(&unshown[i], version))
            return &unshown[i];
    known = names_find(text, version);
    for (size_t i = 0; !known && i < ARRAY_LEN(unshown); i++)
        if (strcmp(unshown[i].pattern, text) == 0)
            known = &unshown[i];
    return known;
}

bool conf_is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* As malloc_strtoumax: a number of base 8, 10 or 16 that ends where the value does. */
static bool is_number(const char *value, size_t len)
{
    char *end;

    errno = 0;
    (void)strtoull(value, &end, 0);
    return len && errno == 0 && end == value + len;
}

static enum conf_flaw judge_setting(const struct conf_setting *setting, struct version version)
{
    const struct ctl_name *option = find_option(setting->text, setting->name_len, version);
    const char *value = setting->text + setting->name_len + 1;
    const size_t len = setting->value_len;

    if (!option)
        return CONF_NO_OPTION;
    if (!name_in_version(option, version))
        return CONF_NOT_HERE;
    switch (option->type) {
    case CTL_BOOL:
        return conf_is_word(value, len, "true") || conf_is_word(value, len, "false")
                   ? CONF_ACCEPTED
                   : CONF_NOT_BOOLEAN;
    case CTL_STRING:
    case CTL_FIXED:
        return CONF_ACCEPTED;
    default:
        return is_number(value, len) || (conf_is_word(value, len, "default") &&
                                         strcmp(option->pattern, "opt.narenas") == 0 &&
                                         (!version.number || version.number >= V(5, 3, 0)))
                   ? CONF_ACCEPTED
                   : CONF_NOT_NUMBER;
    }
}

bool conf_next(const char **text, struct version version, struct conf_setting *setting)
{
    const char *begin = *text, *at = begin;

    if (!*begin)
        return false;
    while (is_in_name(*at))
        at++;
    *setting = (struct conf_setting){
        .text = begin, .len = strcspn(begin, ","), .name_len = (size_t)(at - begin)};
    if (*at != ':') {
        setting->flaw = *at == '\0' || *at == ',' ? CONF_WITHOUT_VALUE : CONF_MALFORMED;
        setting->byte = *at;
        *text = begin + strlen(begin);
        return true;
    }
    setting->value_len = setting->len - setting->name_len - 1;
    setting->flaw = judge_setting(setting, version);
    *text = begin + setting->len + (begin[setting->len] == ',');
    return true;
}

const char *conf_value(const char *text, const char *name, size_t *len)
{
    const char *value = NULL;
    struct conf_setting setting;

    while (conf_next(&text, (struct version){0}, &setting)) {
        if (setting.flaw != CONF_ACCEPTED || !conf_is_word(setting.text, setting.name_len, name))
            continue;
        value = setting.text + setting.name_len + 1;
        *len = setting.value_len;
    }
    return value;
}

const char *conf_suggest(const struct conf_setting *setting, struct version version, char *out,
                         size_t size)
{
    static const char family[] = "opt.";
    const size_t skipped = strncmp(setting->text, family, strlen(family)) == 0 ? strlen(family) : 0;
    const char *name = setting->text + skipped;
    char asked[CTL_NAME_MAX], found[CTL_NAME_MAX];
    size_t len = 0;

    while (is_in_name(name[len]))
        len++;
    out[0] = '\0';
    if (!len ||
        snprintf(asked, sizeof asked, "%s%.*s", family, (int)len, name) >= (int)sizeof asked)
        return out;
    if (find_option(name, len, version))
        snprintf(out, size, "%s", asked + strlen(family));
    else if (names_suggest(asked, version, found) && strncmp(found, family, strlen(family)) == 0)
        snprintf(out, size, "%s", found + strlen(family));
    return out;
}
