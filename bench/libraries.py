"""Generates a C++ program with many libraries: one object file, renamed in each library."""

import os
import shutil
import subprocess

from harness import Failure

# Instances of standard templates, for the symbols that a C++ library typically has.
LIBRARY = r"""
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct part {
    std::map<std::string, std::vector<int>> table;
    std::unordered_map<int, std::shared_ptr<std::string>> names;
    std::set<long> seen;
    std::function<int(int)> next = [this](int n) { return add(n + N); };
    __attribute__((noinline)) int add(int n) {
        table[std::to_string(n + N)].push_back(n);
        names[n] = std::make_shared<std::string>(n, 'x');
        seen.insert(n * N);
        std::sort(table.begin()->second.begin(), table.begin()->second.end());
        return int(table.size() + names.size() + seen.size());
    }
};
template <int N> int chain(int n) { part<N> p; return p.add(n) + chain<N - 1>(n); }
template <> int chain<0>(int n) { return n; }
int entry(int n) { return chain<24>(n); }
"""

PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
"""


def command(argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(argv[:2])}: {done.stderr.strip()[-500:]}")


def libraries_make(directory, count):
    """Builds a program that is linked with `count` libraries. Returns its path."""
    compiler = shutil.which("g++")
    if not compiler:
        raise Failure("g++ is not installed")
    source, program_source, whole = (os.path.join(directory, name)
                                     for name in ("library.cc", "program.cc", "library.o"))
    for path, text in ((source, LIBRARY), (program_source, PROGRAM)):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    command([compiler, "-O1", "-fPIC", "-c", source, "-o", whole])
    names = [library_make(compiler, directory, whole, number) for number in range(count)]
    program = os.path.join(directory, f"program{count}")
    command([compiler, "-O1", program_source, "-o", program, "-Wl,--no-as-needed",
             f"-Wl,-rpath,{directory}", *names])
    return program


def library_make(compiler, directory, whole, number):
    """Builds one library, its function renamed so that no two libraries define the same name."""
    path = os.path.join(directory, f"libpart{number}.so")
    if os.path.exists(path):
        return path
    renamed = os.path.join(directory, "renamed.o")
    command(["objcopy", "--redefine-sym", f"_Z5entryi=_Z{5 + len(str(number))}entry{number}i",
             whole, renamed])
    command([compiler, "-shared", "-o", path, renamed])
    return path
