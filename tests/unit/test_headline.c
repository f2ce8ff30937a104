/* The function that a first line names, in stacks as these programs and libraries have them. */
#include "check.h"
#include "profile/views/call_label.h"
#include "stub_symbols.h"

#include <string.h>

enum {
    CALLS = 12,
    STACKS = 3,
    NAMES = STACKS * CALLS,
    FIRST = 0x10000,
    LIBRARY = 0x90000,
    SIZE = 0x100
};

struct stack {
    unsigned bytes;
    const char *calls[CALLS]; /* innermost first; "": without a name; "@": of a library */
};

struct scene {
    const char *program, *place, *common;
    struct stack stacks[STACKS]; /* the heaviest first */
};

static const struct scene scenes[] = {
    {"MariaDB",
     "THD::init <- Connection::create",
     "",
     {{8, {"my_malloc", "init_alloc_root", "THD::init(bool)", "Connection::create()", "main"}}}},
    {"MariaDB, new in a pool",
     "mysql_parse <- dispatch_command",
     "",
     {{8,
       {"alloc_root", "Sql_alloc::operator new(unsigned long, st_mem_root*)", "mysql_parse(THD*)",
        "dispatch_command(int, THD*)", "main"}}}},
    {"PostgreSQL",
     "copyObjectImpl <- _copyQuery",
     "; 100 % below PrepareQuery",
     {{8,
       {"AllocSetAlloc", "palloc0", "", "copyObjectImpl", "_copyQuery", "PrepareQuery", "PortalRun",
        "PostmasterMain", "main"}},
      {6,
       {"MemoryContextAlloc", "palloc", "lappend", "CompleteCachedPlan", "PrepareQuery",
        "PortalRun", "PostmasterMain", "main"}},
      {4,
       {"AllocSetContextCreateInternal", "CreateCachedPlan", "PrepareQuery", "PortalRun",
        "PostmasterMain", "main"}}}},
    {"PostgreSQL, a recursion",
     "copyObjectImpl <- CompleteCachedPlan",
     "; 100 % below PrepareQuery",
     {{8,
       {"palloc", "", "copyObjectImpl", "list_copy_deep", "", "copyObjectImpl", "list_copy_deep",
        "CompleteCachedPlan", "PrepareQuery", "PortalRun", "main"}},
      {1,
       {"palloc", "lappend", "list_copy_deep", "copyObjectImpl", "PrepareQuery", "PortalRun",
        "main"}}}},
    {"redis",
     "createStringObject <- processMultibulkBuffer",
     "; 100 % below readQueryFromClient",
     {{8,
       {"zmalloc_usable", "_sdsnewlen", "sdsnewlen", "createStringObject", "processMultibulkBuffer",
        "processInputBuffer", "readQueryFromClient", "aeMain", "main"}},
      {4, {"zmalloc", "dictAddRaw", "call", "readQueryFromClient", "aeMain", "main"}}}},
    {"DuckDB",
     "duckdb::JoinHashTable::Build <- duckdb::PhysicalHashJoin::Sink",
     "",
     {{8,
       {"duckdb_je_prof_backtrace", "duckdb_je_malloc",
        "duckdb::Allocator::DefaultAllocate(duckdb::PrivateAllocatorData*, unsigned long)",
        "duckdb::Allocator::AllocateData(unsigned long)",
        "duckdb::JoinHashTable::Build(duckdb::DataChunk&)", "duckdb::PhysicalHashJoin::Sink()",
        "main"}}}},
    {"Rust",
     "shop::cart::Cart::add <- shop::serve",
     "",
     {{8,
       {"_rjem_malloc", "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        "__rust_alloc", "alloc::raw_vec::finish_grow", "alloc::raw_vec::RawVec<T,A>::grow_one",
        "hashbrown::raw::RawTable<T,A>::reserve_rehash", "shop::cart::Cart::add", "shop::serve",
        "std::rt::lang_start::{{closure}}", "main"}}}},
    {"C++",
     "app::Cache::fill <- app::serve",
     "",
     {{8,
       {"operator new(unsigned long)",
        "__gnu_cxx::new_allocator<app::Row>::allocate(unsigned long, void const*)",
        "std::allocator_traits<std::allocator<app::Row> >::allocate(std::allocator<app::Row>&)",
        "std::vector<app::Row, std::allocator<app::Row> >::push_back(app::Row const&)",
        "app::Cache::fill(int)", "app::serve()", "main"}}}},
    {"GLib",
     "window_add_label <- window_show",
     "",
     {{8,
       {"g_malloc", "g_realloc", "g_string_sized_new", "g_string_append_len", "window_add_label",
        "window_show", "main"}}}},
    {"OpenSSL",
     "ssl_session_new <- tls_construct_hello",
     "",
     {{8, {"CRYPTO_malloc", "CRYPTO_zalloc", "ssl_session_new", "tls_construct_hello", "main"}}}},
    {"Python",
     "PyList_Append <- json_scan",
     "",
     {{8,
       {"_PyMem_RawMalloc", "PyMem_Realloc", "PyList_Append", "json_scan",
        "_PyEval_EvalFrameDefault", "run_mod", "pymain_run_python", "Py_BytesMain", "main"}},
      {7,
       {"PyObject_Malloc", "PyDict_New", "_PyEval_EvalFrameDefault", "run_mod", "pymain_run_python",
        "Py_BytesMain", "main"}}}},
    {"Python, a library of its own, as 3.13 and a debug build have it",
     "scan_once <- scanner_call",
     "",
     {{8,
       {"_PyMem_DebugRawAlloc", "_PyMem_DebugMalloc", "_PyObject_GC_Resize", "_PyObject_GC_NewVar",
        "scan_once", "scanner_call", "_PyEval_EvalFrameDefault", "main"}},
      {4,
       {"_PyObject_MallocWithType", "PyMem_Resize", "scan_once", "scanner_call",
        "_PyEval_EvalFrameDefault", "main"}}}},
    {"Python, a string, which its header is written into first",
     "PyUnicode_Concat <- app_greet",
     "",
     {{8,
       {"_PyObject_Malloc", "PyUnicode_New", "PyUnicode_Concat", "app_greet",
        "_PyEval_EvalFrameDefault", "main"}},
      {4,
       {"Py_SET_TYPE", "_PyObject_Init", "PyUnicode_New", "PyUnicode_Concat", "app_greet",
        "_PyEval_EvalFrameDefault", "main"}}}},
    {"a static program with its C library",
     "read_line <- serve",
     "",
     {{8, {"_IO_file_doallocate", "_IO_doallocbuf", "__getdelim", "read_line", "serve", "main"}},
      {4, {"__vasprintf_internal", "__asprintf_chk", "read_line", "serve", "main"}},
      {2, {"wcsdup", "read_line", "serve", "main"}}}},
    {"Ruby",
     "str_new0 <- rb_str_dup",
     "; 100 % below rb_gzreader_read",
     {{8,
       {"objspace_xmalloc0", "ruby_xmalloc", "str_new0", "rb_str_dup", "zstream_run",
        "rb_gzreader_read", "ruby_run_node", "main"}},
      {1, {"ruby_xcalloc", "zstream_append", "rb_gzreader_read", "ruby_run_node", "main"}}}},
    {"one of a tenth elsewhere",
     "a <- handle",
     "; 91 % below handle",
     {{80, {"xmalloc", "a", "handle", "loop", "main"}},
      {102, {"xmalloc", "b", "handle", "loop", "main"}},
      {18, {"xmalloc", "c", "other", "loop", "main"}}}},
    {"nothing common but the loop",
     "a <- handle",
     "",
     {{50, {"xmalloc", "a", "handle", "loop", "main"}}, {50, {"xmalloc", "b", "other", "main"}}}},
    {"a program without names", "program+0x2400 <- program+0x2500", "", {{8, {"", "", "main"}}}},
    {"a library's caller without a name",
     "program+0x2400 <- event_loop",
     "",
     {{8, {"", "@event_loop", "main"}}}},
};

static struct stub_symbol table[NAMES + 1];
static size_t named, nameless;

/* Returns the address of a call of that name: each without a name has one of its own. */
static unsigned address_of(const char *name)
{
    const unsigned base = *name == '@' ? LIBRARY : FIRST;

    if (!*name)
        return (unsigned)(FIRST + (NAMES + nameless++) * SIZE + 1);
    for (size_t i = 0; i < named; i++)
        if (strcmp(table[i].lines[0].function, name) == 0)
            return (unsigned)table[i].start + 1;
    table[named] = (struct stub_symbol){.start = base + named * SIZE,
                                        .end = base + (named + 1) * SIZE,
                                        .lines = {{.function = name + (*name == '@')}}};
    return (unsigned)table[named++].start + 1;
}

static size_t write_profile(const struct scene *scene, char *text, size_t size)
{
    size_t len = (size_t)snprintf(text, size, "heap_v2/1\n");

    memset(table, 0, sizeof table);
    named = nameless = 0;
    for (size_t i = 0; i < STACKS && scene->stacks[i].bytes; i++) {
        len += (size_t)snprintf(text + len, size - len, "@");
        for (size_t j = 0; j < CALLS && scene->stacks[i].calls[j]; j++)
            len += (size_t)snprintf(text + len, size - len, " %#x",
                                    address_of(scene->stacks[i].calls[j]));
        len += (size_t)snprintf(text + len, size - len, "\n t*: 1: %u [0: 0]\n",
                                scene->stacks[i].bytes);
    }
    len += (size_t)snprintf(text + len, size - len,
                            "\nMAPPED_LIBRARIES:\n"
                            "%x-%x r-xp 00000000 08:02 1 /bin/program\n"
                            "%x-%x r-xp 00000000 08:02 2 /lib/library.so\n",
                            FIRST, LIBRARY, LIBRARY, 2 * LIBRARY);
    return len;
}

static void check_scene(const struct scene *scene)
{
    const struct samples_options options = {0};
    const struct symbols_options none = {0};
    char text[4096], place[PLACE_TEXT_SIZE], common[COMMON_TEXT_SIZE];
    double weights[STACKS] = {0};
    struct heap_profile profile;
    struct samples samples;
    size_t len = write_profile(scene, text, sizeof text);

    stub_next = table;
    if (!CHECK(heap_parse(&profile, text, len, NULL) == FAULT_NONE))
        return;
    struct symbols *symbols = locations_symbols(&profile, &none);
    if (CHECK(samples_build(&samples, &options, &profile, symbols, NULL, NULL))) {
        for (size_t i = 0; i < samples.count; i++)
            weights[i] = (double)samples.list[i].values[VALUE_BYTES].now;
        place_text(&samples, &samples.list[0], place);
        common_caller_text(&samples, weights, common);
        if (!CHECK(strcmp(place, scene->place) == 0) || !CHECK(strcmp(common, scene->common) == 0))
            fprintf(stderr, "  %s: got %s%s\n", scene->program, place, common);
    }
    samples_free(&samples);
    symbols_free(symbols);
    heap_free(&profile);
}

int main(void)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        check_scene(&scenes[i]);
    return check_result();
}
