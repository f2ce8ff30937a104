"""Programs with jemalloc linked in: from Debian's libjemalloc_pic.a, which has profiling.

The archive's public names get a prefix (an unprefixed static program with prof:true aborts at its
start: malloc runs before the unwinder can), the program is compiled to use them, linked as a static
PIE, static at fixed addresses, or dynamic at fixed addresses, and stripped or not.
"""

import glob
import os
import shutil
import subprocess

LINKS = {
    "static-pie": ("-static-pie", "-fPIE"),
    "static": ("-static", "-no-pie", "-fno-pie"),
    "no-pie": ("-no-pie", "-fno-pie"),
    "pie": ("-pie", "-fPIE"),
}
PUBLIC = (
    "malloc calloc realloc free posix_memalign aligned_alloc memalign valloc mallocx rallocx xallocx "
    "sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib malloc_stats_print "
    "malloc_usable_size malloc_message malloc_conf malloc_conf_2_conf_harder"
).split()


def missing():
    """Returns why none of these can be built here, or None."""
    for tool in ("gcc", "ar", "objcopy", "strip"):
        if not shutil.which(tool):
            return "no " + tool
    if not glob.glob("/usr/lib/*/libjemalloc_pic.a"):
        return "no libjemalloc_pic.a (package libjemalloc-dev)"
    return None


def run(*argv):
    result = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    if result.returncode:
        raise RuntimeError("%s: %s" % (" ".join(argv), result.stdout[-2000:]))
    return result.stdout


def archive(prefix, folder):
    """Makes libjemalloc without its C++ part, with its public names behind the prefix."""
    path = os.path.join(folder, "libjemalloc-%s.a" % (prefix or "plain"))
    if os.path.exists(path):
        return path
    shutil.copy(glob.glob("/usr/lib/*/libjemalloc_pic.a")[0], path)
    for member in run("ar", "t", path).split():
        if "cpp" in member:
            run("ar", "d", path, member)
    names = os.path.join(folder, "names")
    with open(names, "w", encoding="ascii") as file:
        file.writelines("%s %s%s\n" % (name, prefix, name) for name in PUBLIC)
    run("objcopy", "--redefine-syms=" + names, path)
    return path


def build(source, link, prefix, folder, strip=True, words=()):
    """Compiles the C source with malloc and free of that prefix; returns the program's path."""
    name = os.path.splitext(os.path.basename(source))[0]
    path = os.path.join(folder, "%s-%s-%s%s" % (name, prefix, link, "-stripped" if strip else ""))
    defines = ["-D%s=%s%s" % (word, prefix, word) for word in ("malloc", "free")]
    run("gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", *defines, *words, *LINKS[link], source,
        archive(prefix, folder), "-o", path, "-lm", "-lpthread", "-ldl")
    if strip:
        run("strip", path)
    return path
