/* Names of C++ and Rust, and hostile names. */
#include "check.h"
#include "profile/symbols/demangle.h"

#include <stdio.h>
#include <string.h>

static struct arena arena;

static bool demangled(const char *name, const char *wanted)
{
    const char *found = demangle(&arena, name);

    if (found && strcmp(found, wanted) == 0)
        return true;
    fprintf(stderr, "%s: %s\n", name, found ? found : "out of memory");
    return false;
}

static void test_cxx(void)
{
    CHECK(demangled("_Z3fooi", "foo(int)"));
    CHECK(demangled("_ZN6shapes3BoxIdE3sumEi", "shapes::Box<double>::sum(int)"));
    CHECK(demangled("_ZN3app12_GLOBAL__N_16hiddenEi", "app::(anonymous namespace)::hidden(int)"));
    CHECK(demangled("_ZNKSt6vectorIiSaIiEE4sizeEv",
                    "std::vector<int, std::allocator<int> >::size() const"));
    CHECK(demangled("_Z3fooi.cold", "foo(int) [clone .cold]"));
    CHECK(demangled("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const"));
}

static void test_rust(void)
{
    CHECK(demangled("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"));
    CHECK(demangled(
        "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
        "<alloc::string::String as core::fmt::Display>::fmt"));
    CHECK(demangled("_RNvCs1234_7mycrate3foo", "mycrate::foo"));
    CHECK(demangled("_RNvMCs1234_7mycrateNtB2_6Square4area", "<mycrate::Square>::area"));
    CHECK(demangled("_RINvCs1234_7mycrate4foldmE", "mycrate::fold::<u32>"));
}

static void test_plain(void)
{
    static const char *const names[] = {"",    "_",      "_Z",   "_R",     "main",        "_start",
                                        "_ZN", "_Zjunk", "_RNv", "Z3fooi", "_ZN4core3ptr"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(demangle(&arena, names[i]) == names[i]);
}

/* A<T, T> of the previous type, again and again: each step doubles the text. */
static size_t doubling(char *out, unsigned steps)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = (size_t)sprintf(out, "_Z1f1AI");

    for (unsigned i = 1; i < steps; i++)
        len += (size_t)sprintf(out + len, "S_I");
    len += (size_t)sprintf(out + len, "iiE");
    for (unsigned i = 1; i < steps; i++)
        len += (size_t)sprintf(out + len, "S%c_E", digits[i - 1]);
    return len;
}

static void test_explosion(void)
{
    char name[256];
    const char *found;

    doubling(name, 8); /* 255 names: it is a valid one */
    found = demangle(&arena, name);
    CHECK(found && found != name && strlen(found) > 500 && strlen(found) < DEMANGLE_OUTPUT_MAX);
    doubling(name, 36);
    CHECK(demangle(&arena, name) == name);
}

/* A function of `templates` nested types, with as many parameters as `references`. */
static const char *nested_types(unsigned templates, const char *parameter, unsigned references)
{
    static char name[32 << 10];
    size_t len = (size_t)sprintf(name, "_Z1fI");

    for (unsigned i = 1; i < templates; i++)
        len += (size_t)sprintf(name + len, "1aI");
    len += (size_t)sprintf(name + len, "i");
    for (unsigned i = 0; i < templates; i++)
        name[len++] = 'E';
    name[len++] = 'v';
    for (unsigned i = 0; i < references; i++)
        len += (size_t)sprintf(name + len, "%s", parameter);
    return name;
}

/* The library's array for these would be of 13 MB, on the stack. */
static void test_references(void)
{
    const char *name = nested_types(800, "RT_", 1000);

    CHECK(demangle(&arena, name) == name);
    name = nested_types(800, "OT_", 1000);
    CHECK(demangle(&arena, name) == name);
    name = nested_types(250, "RT_RS_", 130); /* nearly as many as are let through */
    CHECK(demangle(&arena, name) != NULL);
    CHECK(demangled(nested_types(1, "RT_", 3), "void f<int>(int&, int&, int&)"));
    name = nested_types(100, "T_", 100);
    CHECK(demangle(&arena, name) != name);
}

/* The longest name that is demangled, of every kind of nesting. */
static void test_depth(void)
{
    static const char *const nested[] = {"P", "N", "1AI", "F", "L", "X", "T", "D", "S_", "M"};
    static char name[DEMANGLE_INPUT_MAX + 64];

    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
        size_t at = 4, step = strlen(nested[i]);
        memcpy(name, "_Z1f", 4);
        for (; at + step < DEMANGLE_INPUT_MAX; at += step)
            memcpy(name + at, nested[i], step);
        name[at] = '\0';
        CHECK(demangle(&arena, name) != NULL);
        name[1] = 'R';
        CHECK(demangle(&arena, name) != NULL);
    }
    memset(name + 4, 'P', DEMANGLE_INPUT_MAX - 2);
    name[DEMANGLE_INPUT_MAX + 2] = '\0';
    CHECK(demangle(&arena, name) == name);
}

int main(void)
{
    test_cxx();
    test_rust();
    test_plain();
    test_explosion();
    test_references();
    test_depth();
    arena_free(&arena);
    return check_result();
}
