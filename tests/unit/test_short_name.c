/* Names of functions, shortened. */
#include "check.h"
#include "profile/names/short_name.h"

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

/* Names of libclang, libLLVM, libstdc++ and libc++, and of programs with each feature. */
static void test_cpp_features(void)
{
    CHECK(shortens("std::unique_ptr<app::Thing> const& app::find<int>(int)", "app::find"));
    CHECK(shortens("char const* app::text<(app::E)1>()", "app::text"));
    CHECK(shortens("app::C::run(int) const::{lambda(std::string const&)#2}::operator()(int) const",
                   "app::C::run::{lambda#2}::operator()"));
    CHECK(shortens("app::f(int)::{lambda(auto:1)#1} app::g<int>()", "app::g"));
    CHECK(shortens("app::run()::'lambda'(int)::operator()(int) const",
                   "app::run::'lambda'::operator()"));
    CHECK(shortens("app::run()::$_0::operator()(int) const", "app::run::$_0::operator()"));
    CHECK(shortens("app::run::<lambda(int)>::operator()", "app::run::{lambda}::operator()"));
    CHECK(shortens("int (*app::pick<int>(void (*)(char)))(int)", "app::pick"));
    CHECK(shortens("int (&app::table<int>())[3]", "app::table"));
    CHECK(shortens("int (app::C::*app::member<int>(int))(char)", "app::member"));
    CHECK(shortens("std::to_string[abi:cxx11](int)", "std::to_string"));
    CHECK(shortens("std::string::operator std::basic_string_view<char, std::char_traits<char> >() "
                   "const",
                   "std::string::operator std::basic_string_view"));
    CHECK(shortens("app::F::operator void (*)(int)() const", "app::F::operator void (*)(int)"));
    CHECK(shortens("app::F::operator bool() const::{lambda()#1}::operator()() const",
                   "app::F::operator bool::{lambda#1}::operator()"));
    CHECK(shortens("app::It::operator->() const", "app::It::operator->"));
    CHECK(shortens("bool app::operator< <int>(app::X<int> const&)", "app::operator<"));
    CHECK(shortens("app::F::operator()<int>(int&&) const", "app::F::operator()"));
    CHECK(shortens("app::operator<=>(app::X, app::X)", "app::operator<=>"));
    CHECK(shortens("operator\"\" _km(long double)", "operator\"\" _km"));
    CHECK(shortens("app::operator co_await(app::Task)", "app::operator co_await"));
    CHECK(shortens("void app::f<&(bool app::operator< <int>(int)), (1>2), (3<4)>()", "app::f"));
    CHECK(
        shortens("decltype(auto) std::visit<app::F, std::variant<int> >(app::F&&)", "std::visit"));
    CHECK(shortens("std::enable_if<(bool)1, int>::type app::g<int>(int)", "app::g"));
    CHECK(shortens("non-virtual thunk to app::F::g(int)", "app::F::g"));
    CHECK(shortens("app::f(int) (.part.0)", "app::f"));
    CHECK(shortens("app::(anonymous namespace)::X<int>::~X()", "app::(anon)::X::~X"));
    CHECK(shortens("app::X<int, app::Y<app::Z>>::Inner<char>::go()", "app::X::Inner::go"));
}

static void test_rust(void)
{
    CHECK(shortens("app::fill::<u32>", "app::fill"));
    CHECK(shortens("app::fill::<u32>::{closure#0}", "app::fill::{closure#0}"));
    CHECK(shortens("<app::Cache<T> as core::fmt::Display>::fmt", "app::Cache::fmt"));
    CHECK(shortens("<&mut app::Rows as core::iter::Iterator>::next", "app::Rows::next"));
    CHECK(shortens("<T as app::Encode>::encode", "app::Encode::encode"));
    CHECK(shortens("<alloc::vec::Vec<u8> as app::Encode>::encode", "app::Encode::encode"));
    CHECK(shortens("<[T]>::to_vec", "[T]::to_vec"));
    CHECK(shortens("alloc::slice::<impl [T]>::to_vec", "[T]::to_vec"));
    CHECK(shortens("core::str::<impl str>::parse", "str::parse"));
    CHECK(shortens("core::fmt::num::<impl core::fmt::Display for u32>::fmt",
                   "core::fmt::Display::fmt"));
    CHECK(shortens("app::codec::<impl core::convert::From<app::Kind> for u16>::from",
                   "app::codec::From::from"));
    CHECK(shortens("<<app::Store as app::Db>::Row as core::clone::Clone>::clone",
                   "app::Store::Row::clone"));
    CHECK(shortens("<alloc::boxed::Box<dyn app::Job + core::marker::Send> as "
                   "core::ops::function::FnOnce<()>>::call_once",
                   "alloc::boxed::Box::call_once"));
    CHECK(shortens("<dyn app::Job + core::marker::Send>::run", "app::Job::run"));
    CHECK(shortens("core::ops::function::FnOnce::call_once{{vtable.shim}}",
                   "core::ops::function::FnOnce::call_once"));
    CHECK(shortens("app::main::{{closure}}::h0123456789abcdef", "app::main::{{closure}}"));
    CHECK(shortens("app::main::h0123456789abcdef.llvm.77", "app::main"));
    CHECK(shortens("app::main::handler", "app::main::handler"));
}

static void test_go_and_others(void)
{
    CHECK(shortens("main.main.func1", "main.main.func1"));
    CHECK(
        shortens("example.com/lib/cache.(*Map[go.shape.int,string]).Put", "cache.(*Map[...]).Put"));
    CHECK(shortens("main.Sum[go.shape.[]int]", "main.Sum[...]"));
    CHECK(shortens("LazyCompile:*main /app/x.js:3:5", "LazyCompile:*main /app/x.js:3:5"));
    CHECK(shortens("Ljava/util/HashMap;::put", "Ljava/util/HashMap;::put"));
    CHECK(shortens("[thread a b]", "[thread a b]"));
    CHECK(shortens("my prog (deleted)+0x12", "my prog (deleted)+0x12"));
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
    CHECK(shortens("f(a<b<c)", "f") && shortens("f(<<<<<<<<<<<<<<<<)", "f"));
    CHECK(shortens("f(<<<<<<<<<<<<<<<<<)", "f(<<<<<<<<<<<<<<<<<)")); /* no compiler's */
    CHECK(strcmp(short_name("abcdef", out, sizeof out), "abc") == 0);
    CHECK(strcmp(short_name("abcdef()", out, 1), "") == 0);
}

static bool is_bounded(const char *name, const char *expected)
{
    char out[NAME_MAX_SHOWN + 1];
    const char *bounded = bounded_name(name, out);

    return strlen(bounded) <= NAME_MAX_SHOWN && strcmp(bounded, expected) == 0;
}

/* A long name is a short one, or cut where no character is cut in two. */
static void test_bounded(void)
{
    static char name[64 << 10], expected[NAME_MAX_SHOWN + 1];
    enum { MOST = NAME_MAX_SHOWN - 3 };

    memset(name, 'x', NAME_MAX_SHOWN);
    CHECK(is_bounded("f(int)", "f(int)") && is_bounded(name, name));
    snprintf(name, sizeof name, "void a::b<%2000s>::c<int>(%2000s)", "x", "y");
    CHECK(is_bounded(name, "a::b::c"));
    for (size_t len = NAME_MAX_SHOWN + 1; len < sizeof name; len += len) {
        memset(name, 'x', len);
        name[len] = '\0';
        snprintf(expected, sizeof expected, "%.*s\u2026", MOST, name);
        CHECK(is_bounded(name, expected));
        memcpy(name + MOST - 2, "\u20ac", 3); /* its last byte is the first that is dropped */
        CHECK(is_bounded(name, expected) == (len == 0));
        snprintf(expected, sizeof expected, "%.*s\u2026", MOST - 2, name);
        CHECK(is_bounded(name, expected));
    }
}

int main(void)
{
    test_bounded();
    test_c();
    test_cpp();
    test_cpp_features();
    test_rust();
    test_go_and_others();
    test_rust_and_go();
    test_odd();
    return check_result();
}
