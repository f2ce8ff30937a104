/* Names of functions, shortened. */
#include "check.h"
#include "profile/short_name.h"

#include <string.h>

static bool shortens(const char *name, const char *expected)
{
    char out[128];
    bool same = strcmp(short_name(name, out, sizeof out), expected) == 0;

    if (!same)
        fprintf(stderr, "  %s: got %s\n", name, out);
    return same;
}

static void test_c(void)
{
    CHECK(shortens("_sdsnewlen", "_sdsnewlen"));
    CHECK(shortens("libz.so.1+0x1234", "libz.so.1+0x1234"));
    CHECK(shortens("[truncated]", "[truncated]"));
    CHECK(shortens("grow.part.0", "grow.part.0"));
    CHECK(shortens("", ""));
}

static void test_cpp(void)
{
    CHECK(shortens("std::vector<int, std::allocator<int> >::push_back(int const&)",
                   "std::vector::push_back"));
    CHECK(shortens("void app::fill<std::pair<int, char> >(int (*)(char))", "app::fill"));
    CHECK(shortens("app::cache::get(int) const", "app::cache::get"));
    CHECK(shortens("app::cache::get(int) const &", "app::cache::get"));
    CHECK(shortens("app::load(char const*) [clone .cold]", "app::load"));
    CHECK(shortens("(anonymous namespace)::make(int)", "(anon)::make"));
    CHECK(shortens("app::run()::{lambda(int)#1}::operator()(int) const",
                   "app::run::{lambda#1}::operator()"));
    CHECK(shortens("operator new[](unsigned long)", "operator new[]"));
    CHECK(shortens("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"));
    CHECK(shortens("app::operator==(app::key const&, app::key const&)", "app::operator=="));
    CHECK(shortens("app::text::operator char const*() const", "app::text::operator char const*"));
    CHECK(shortens("my_operator_table(int)", "my_operator_table"));
    CHECK(shortens("decltype (a->b) app::f<(x)1>()", "app::f"));
}

static void test_rust_and_go(void)
{
    CHECK(shortens("<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                   "alloc::vec::Vec::extend"));
    CHECK(shortens("<app::Cache>::insert", "app::Cache::insert"));
    CHECK(shortens("hashbrown::raw::RawTable<T,A>::reserve_rehash",
                   "hashbrown::raw::RawTable::reserve_rehash"));
    CHECK(shortens("main.(*Server).Serve", "main.(*Server).Serve"));
}

/* A name may be any text. */
static void test_odd(void)
{
    char out[4];

    CHECK(shortens("<", "<") && shortens("(", "(") && shortens("f(", "f(") &&
          shortens("a<b", "a<b"));
    CHECK(shortens(" ", " ") && shortens(">", ">") && shortens("()", "()"));
    CHECK(strcmp(short_name("abcdef", out, sizeof out), "abc") == 0);
    CHECK(strcmp(short_name("abcdef()", out, 1), "") == 0);
}

int main(void)
{
    test_c();
    test_cpp();
    test_rust_and_go();
    test_odd();
    return check_result();
}
