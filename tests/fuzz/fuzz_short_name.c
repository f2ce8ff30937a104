/* A function's name, which may be any text: shortened, and judged whose code it is. */
#include "fuzz.h"
#include "profile/names/code_kind.h"
#include "profile/names/name_parts.h"
#include "profile/names/short_name.h"

#include <string.h>

enum { SMALL = 24, LARGE = 4096 };

/* A short name is not longer than the name, and not empty unless the name is. */
static void shorten(const char *name)
{
    char small[SMALL], large[LARGE], again[LARGE];

    memset(small, 'x', sizeof small);
    memset(large, 'x', sizeof large);
    expect(short_name(name, small, sizeof small) == small && strlen(small) < sizeof small);
    expect(short_name(name, large, sizeof large) == large && strlen(large) < sizeof large);
    expect((*large == '\0') == (*name == '\0'));
    expect(strlen(large) <= strlen(name) + strlen("[...]"));
    short_name(large, again, sizeof again);
    expect(strlen(again) <= strlen(large) + strlen("[...]"));
    expect(short_name(name, small, 1) == small && *small == '\0');
}

/* A name that is not too long stays. */
static void bound(const char *name)
{
    char out[NAME_MAX_SHOWN + 1];
    const char *bounded = bounded_name(name, out);

    expect((bounded == name) == (strlen(name) <= NAME_MAX_SHOWN));
    expect(strlen(bounded) <= NAME_MAX_SHOWN && (*bounded || !*name));
}

/* Parts of a name lie within it. */
static void split(const char *name)
{
    struct name_part whole = {name, name + strlen(name)};
    const char *behind = *name && strchr("<([{", *name) ? name_skip_bracket(whole) : NULL;
    const char *found = name_search(whole, "::");

    expect(!behind || (behind > whole.at && behind <= whole.end));
    expect(!found || strncmp(found, "::", 2) == 0);
    if (behind && *name == '<') {
        struct name_impl impl = name_split_impl(whole);
        struct name_part part = name_of_impl(&impl);
        expect(impl.type.at >= whole.at && impl.type.end <= whole.end);
        expect(!impl.trait.at || (impl.trait.at >= whole.at && impl.trait.end <= whole.end));
        expect(part.at >= whole.at && part.at <= part.end && part.end <= whole.end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *name = malloc(size + 1);

    expect(name != NULL);
    memcpy(name, data, size);
    name[size] = '\0';
    shorten(name);
    bound(name);
    split(name);
    expect(code_kind(name) <= CODE_ALLOCATOR);
    expect(code_kind_of_module(name) <= CODE_ALLOCATOR);
    free(name);
    return 0;
}
