/* Whose code a function is: names as demanglers print them, taken from real programs. */
#include "check.h"
#include "profile/names/code_kind.h"

static bool is_kind(enum code_kind kind, const char *name)
{
    enum code_kind got = code_kind(name);

    if (got != kind)
        fprintf(stderr, "  %s: got %d, not %d\n", name, got, kind);
    return got == kind;
}

#define OWN(name)       CHECK(is_kind(CODE_OWN, name))
#define PLUMBING(name)  CHECK(is_kind(CODE_PLUMBING, name))
#define SYSTEM(name)    CHECK(is_kind(CODE_SYSTEM, name))
#define ALLOCATOR(name) CHECK(is_kind(CODE_ALLOCATOR, name))

static void test_cpp_library(void)
{
    PLUMBING("std::vector<app::Thing, std::allocator<app::Thing> >::push_back(app::Thing const&)");
    PLUMBING("void std::vector<app::Thing>::_M_realloc_insert<app::Thing const&>("
             "__gnu_cxx::__normal_iterator<app::Thing*, std::vector<app::Thing> >, app::Thing&&)");
    PLUMBING("app::Thing& std::vector<app::Thing>::emplace_back<int>(int&&)");
    PLUMBING("std::_Function_handler<void (int), app::run()::{lambda(int)#1}>::_M_invoke("
             "std::_Any_data const&, int&&)");
    PLUMBING("decltype(auto) std::visit<app::run()::{lambda(auto:1)#1}, std::variant<int> >("
             "app::run()::{lambda(auto:1)#1}&&, std::variant<int>&&)");
    PLUMBING("std::enable_if<(bool)1, void>::type std::sort<app::It>(app::It, app::It)");
    PLUMBING("std::thread::_State_impl<std::thread::_Invoker<std::tuple<app::run()::{lambda()#1}> "
             "> >::_M_run()");
    PLUMBING("std::__1::basic_string<char>::__grow_by(unsigned long, unsigned long)");
    PLUMBING("std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)");
    PLUMBING("std::to_string[abi:cxx11](int)");
    PLUMBING("__gnu_cxx::new_allocator<app::Thing>::allocate(unsigned long, void const*)");
    PLUMBING("__cxxabiv1::__enum_type_info::~__enum_type_info()");
    PLUMBING("__cxa_allocate_exception");
    PLUMBING("operator new(unsigned long)");
    PLUMBING("operator new[](unsigned long, std::nothrow_t const&)");
    PLUMBING("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)");
    PLUMBING("bool std::operator< <int>(std::vector<int> const&, std::vector<int> const&)");
}

static void test_cpp_own(void)
{
    OWN("main");
    OWN("app::Cache<std::string>::put(std::string const&, std::vector<int>)");
    OWN("app::run()::{lambda(int)#1}::operator()(int) const");
    OWN("app::C::run(int) const::{lambda(std::string const&)#2}::operator()(std::string) const");
    OWN("std::vector<int> app::load<std::string>(std::string const&)");
    OWN("std::unique_ptr<app::Thing> const& app::find(int)");
    OWN("app::operator<<(std::ostream&, app::Thing const&)");
    OWN("operator<<(std::ostream&, app::Thing const&)");
    OWN("(anonymous namespace)::make(std::string)");
    OWN("int (*app::pick<int>(std::string))(int)");
    OWN("app::Thing::operator std::string() const");
    OWN("core::Engine::run(int)");             /* a namespace, not Rust's crate */
    OWN("alloc::pool::Arena::take(unsigned)"); /* the same */
    OWN("core::helper");
    OWN("<lambda(int)>::operator()(int)");
    OWN("stdx::vector::push");
    OWN("boost::container::vector<int>::push_back(int)"); /* another library */
}

static void test_rust_library(void)
{
    PLUMBING("alloc::vec::Vec<T,A>::push");
    PLUMBING("alloc::raw_vec::RawVec<T,A>::grow_one");
    PLUMBING("alloc::raw_vec::finish_grow");
    PLUMBING("hashbrown::raw::RawTable<T,A>::reserve_rehash");
    PLUMBING("<alloc::vec::Vec<app::Thing> as core::clone::Clone>::clone");
    PLUMBING("<alloc::vec::Vec<app::Thing>>::push");
    PLUMBING("<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec");
    PLUMBING("<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>");
    PLUMBING("<&str as <alloc::ffi::c_str::CString>::new::SpecNewImpl>::spec_new_impl");
    PLUMBING("<&mut alloc::vec::Vec<app::X> as core::iter::Extend<u8>>::extend");
    PLUMBING("alloc::slice::<impl [T]>::to_vec");
    PLUMBING("<[app::Thing]>::to_vec");
    PLUMBING("<str>::to_owned");
    PLUMBING("core::fmt::num::<impl core::fmt::Display for u32>::fmt");
    PLUMBING("core::ops::function::FnOnce::call_once{{vtable.shim}}");
    PLUMBING("core::ops::function::impls::<impl core::ops::function::FnOnce<A> for &mut F>::"
             "call_once");
    PLUMBING("<alloc::boxed::Box<dyn app::Job> as core::ops::function::FnOnce<()>>::call_once");
    PLUMBING("<F as core::ops::function::Fn<(u32,)>>::call");
    PLUMBING("<core::iter::adapters::map::Map<I,app::main::{closure#0}> as "
             "core::iter::traits::iterator::Iterator>::next");
    PLUMBING("<std::collections::hash::map::HashMap<u64, app::Entry>>::insert");
    PLUMBING("std::sys::backtrace::__rust_begin_short_backtrace");
    PLUMBING("std::rt::lang_start::{{closure}}");
    PLUMBING("<<alloc::vec::Vec<T> as core::iter::IntoIterator>::IntoIter as "
             "core::iter::Iterator>::next");
}

static void test_rust_own(void)
{
    OWN("app::main");
    OWN("app::main::{{closure}}");
    OWN("app::serve::{closure#0}::{closure#1}");
    OWN("<app::Thing as core::fmt::Display>::fmt");
    OWN("<app::Thing as core::convert::From<alloc::string::String>>::from");
    OWN("<app::Cache<alloc::string::String>>::insert::<u8>");
    OWN("<&mut app::Rows as core::iter::Iterator>::next");
    OWN("<alloc::vec::Vec<u8> as app::Encode>::encode");
    OWN("<T as app::Encode>::encode");
    OWN("<<app::Store as app::Db>::Row as core::clone::Clone>::clone");
    OWN("app::codec::<impl core::convert::From<app::Kind> for u16>::from");
    OWN("tokio::runtime::task::raw::poll");
    OWN("core_app::fmt::write");
}

static void test_allocators(void)
{
    ALLOCATOR("__rust_alloc");
    ALLOCATOR("__rust_alloc_zeroed");
    ALLOCATOR("__rustc::__rust_realloc");
    ALLOCATOR("__rg_realloc");
    ALLOCATOR("__rdl_alloc");
    ALLOCATOR("<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc");
    ALLOCATOR("<jemallocator::Jemalloc as core::alloc::GlobalAlloc>::realloc");
    ALLOCATOR("<app::Counting as core::alloc::global::GlobalAlloc>::alloc");
    ALLOCATOR("tikv_jemalloc_sys::malloc_usable");
    ALLOCATOR("_PyObject_Malloc");
    ALLOCATOR("new_arena.constprop.0");
    ALLOCATOR("_PyObject_GC_NewVar");
    ALLOCATOR("palloc0");
    OWN("PyTuple_New");
    OWN("new");
}

/* Names that say nothing but that they allocate, and those that say what for. */
static void test_wrappers(void)
{
    static const char *const wrappers[] = {
        "my_malloc",
        "my_multi_malloc",
        "init_alloc_root",
        "alloc_root",
        "strdup_root",
        "Sql_alloc::operator new(unsigned long, st_mem_root*)",
        "palloc",
        "palloc0_checked",
        "pstrdup",
        "MemoryContextAllocZero",
        "MemoryContextStrdup",
        "AllocSetAlloc",
        "AllocSetContextCreateInternal",
        "zmalloc",
        "zmalloc_usable_internal",
        "ztrymalloc_usable",
        "zcalloc_num",
        "duckdb::Allocator::AllocateData(unsigned long)",
        "rocksdb::Arena::Allocate(unsigned long)",
        "AllocateHeap(unsigned long, MEMFLAGS)",
        "xmalloc",
        "xmalloc.constprop.0",
        "g_malloc0_n",
        "g_slice_alloc0",
        "g_try_malloc",
        "g_strdup",
        "CRYPTO_malloc",
        "CRYPTO_zalloc",
        "OPENSSL_strdup",
        "PyMem_RawMalloc",
        "PyObject_Calloc",
        "ngx_pcalloc",
        "ngx_pnalloc",
        "apr_palloc",
        "av_malloc",
        "safe_malloc",
    };
    static const char *const own[] = {
        "session_alloc",
        "alloc_session",
        "allocate_function",
        "malloc_turn",
        "page_get_record",
        "init_root",
        "createObject",
        "copyObjectImpl",
        "PrepareQuery",
        "app::Cache::fill(int)",
        "app::AllocateRow(int)",
        "mallocator",
        "alloc::Server",
        "app::malloc_info::f()",
        "main.(*Pool).alloc",
        "pool",
        "CRYPTO_THREAD_new",
        "g_object_new",
        "new_page",
        "allocs",
    };

    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        ALLOCATOR(wrappers[i]);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        OWN(own[i]);
    PLUMBING("_sdsnewlen");
    PLUMBING("sdsMakeRoomFor");
    PLUMBING("g_string_append_len");
    SYSTEM("_PyEval_EvalFrameDefault");
}

static void test_system(void)
{
    SYSTEM("_start");
    SYSTEM("__libc_start_call_main");
    SYSTEM("_dl_allocate_tls");
    SYSTEM("__clone3");
    SYSTEM("strdup");
    SYSTEM("runtime.mallocgc");
    SYSTEM("runtime.cgocall");
    SYSTEM("_cgo_3f1a_Cfunc__Cmalloc");
    SYSTEM("crosscall2");
    OWN("runtime.part.0"); /* of a C function that is called runtime */
    OWN("main.(*Server).Serve");
    OWN("app+0x1234");
    OWN("");
    OWN("<");
    OWN("</script><script>x");
    OWN("::<impl ");
}

static void test_modules(void)
{
    static const char *const system[] = {
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/libc-2.31.so",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-musl-x86_64.so.1",
        "/lib/x86_64/ld-2.31.so",
        "/lib/libpthread.so.0",
        "/usr/lib/libstdc++.so.6.0.30",
        "/usr/lib/libc++.so.1",
        "/usr/lib/libc++abi.so.1",
        "/lib/libc.musl-x86_64.so.1",
        "[vdso]",
    };
    static const char *const own[] = {
        "/usr/bin/app", "/opt/libcache.so.1", "/opt/ld", "/lib/libcrypto.so.3", "", "/opt/libc"};

    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        CHECK(code_kind_of_module(system[i]) == CODE_SYSTEM);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        CHECK(code_kind_of_module(own[i]) == CODE_OWN);
    CHECK(code_kind_of_module("/usr/lib/libjemalloc.so.2") == CODE_ALLOCATOR);
}

int main(void)
{
    test_cpp_library();
    test_cpp_own();
    test_rust_library();
    test_rust_own();
    test_allocators();
    test_wrappers();
    test_system();
    test_modules();
    return check_result();
}
