"""Generates a C++ program whose heap profile has a given number of stacks and functions.

  program_write(DIRECTORY, FUNCTIONS)    writes its sources
  program STACKS DEPTH                   keeps one block of each of STACKS calls, DEPTH levels deep

Each function calls one of eight others, through layers that are always inlined; in the large
program also through the standard library's templates, whose debug information makes it large.
"""

import os
import random

FILES = 10
LARGE_FILES, PARTS = 18, 3

HEADER = """#include <cstdlib>
#include <cstring>
namespace app {
void *dispatch(unsigned function, unsigned depth, unsigned long path);
template <class T> struct layer {
    static inline __attribute__((always_inline)) void *make(unsigned n)
    {
        void *block = malloc(sizeof(T) * n);
        memset(block, 1, sizeof(T) * n);
        return block;
    }
};
static inline __attribute__((always_inline)) void *leaf(unsigned n)
{
    return layer<long>::make(n);
}
static inline __attribute__((always_inline)) void *go(unsigned f, unsigned depth, unsigned long path)
{
    return depth == 0 ? leaf(2 + f % 7) : dispatch(f, depth, path);
}
}
"""

# The parts of a large unit: instances of standard templates around each call.
LARGE_HEADER = """#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
template <class Tag, int N> struct part {
    struct item { std::string name; std::vector<Tag> tags; std::function<void *()> next; };
    std::map<std::string, item> table;
    std::unordered_map<int, std::shared_ptr<item>> known;
    std::set<std::pair<int, std::string>> seen;
    __attribute__((noinline)) void *visit(std::function<void *()> next)
    {
        static bool full;
        if (full) {
            item &one = table[std::to_string(N)];
            one.tags.emplace_back();
            std::sort(one.tags.begin(), one.tags.end());
            known[N] = std::make_shared<item>(one);
            seen.emplace(N, one.name);
            std::async(std::launch::deferred, [&one] { return one.next(); }).get();
            full = std::regex_search(one.name, std::regex("x+"));
        }
        void *block = next();
        asm volatile("" : "+r"(block));
        return block;
    }
};
"""

MAIN = """#include "app.h"
namespace app {
%(tables)s
typedef void *(*function)(unsigned, unsigned long);
static function *const tables[] = {%(names)s};
void *dispatch(unsigned f, unsigned depth, unsigned long path)
{
    void *block = tables[f / %(per)d][f %% %(per)d](depth, path);
    asm volatile("" : "+r"(block));
    return block;
}
}
int main(int argc, char **argv)
{
    unsigned long count = argc == 3 ? strtoul(argv[1], nullptr, 10) : 0;
    static void *blocks[1 << 20];
    for (unsigned long i = 0; i < count && i < 1 << 20; i++) {
        unsigned long path = (i + 1) * 0x9e3779b97f4a7c15ul;
        blocks[i] = app::dispatch(i %% %(functions)d, atoi(argv[2]), path ^ path >> 29);
    }
    return 0;
}
"""


def module(number, per, functions, large):
    lines = ['#include "app.h"', '#include "large.h"' if large else "",
             "namespace app { namespace mod%d {" % number]
    call = "go(%d, depth - 1, path >> 3)"
    if large:
        lines.append("struct tag { int n; };\n"
                     "inline bool operator<(tag a, tag b) { return a.n < b.n; }")
    for i in range(per):
        if large:
            call = ("part<tag, %d>().visit([=] { return go(%%d, depth - 1, path >> 3); })"
                    % (i % PARTS))
        lines.append("void *func_%d(unsigned depth, unsigned long path)\n{" % i)
        lines.append("    void *block = nullptr;\n    switch (path & 7) {")
        for k in range(8):
            callee = random.randrange(functions)
            lines.append("    case %d: block = %s; break;" % (k, call % callee))
        lines.append('    }\n    asm volatile("" : "+r"(block));\n    return block;\n}')
    names = ", ".join("func_%d" % i for i in range(per))
    lines.append("void *(*table[])(unsigned, unsigned long) = {%s};\n}}" % names)
    return "\n".join(lines) + "\n"


def program_write(directory, functions, large=False):
    """Writes the sources, the same each time. Returns the names of those to compile."""
    random.seed(1)
    files = LARGE_FILES if large else FILES
    per = functions // files
    functions = per * files
    tables = ["namespace mod%d { extern void *(*table[])(unsigned, unsigned long); }" % i
              for i in range(files)]
    names = ", ".join("mod%d::table" % i for i in range(files))
    texts = {"app.h": HEADER, "large.h": LARGE_HEADER,
             "main.cc": MAIN % {"tables": "\n".join(tables), "names": names,
                                "per": per, "functions": functions}}
    for i in range(files):
        texts["m%d.cc" % i] = module(i, per, functions, large)
    for name, text in texts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as out:
            out.write(text)
    return sorted(name for name in texts if name.endswith(".cc"))
