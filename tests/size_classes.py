"""The size classes in a report that a process has made itself, malloc_stats_print("J")."""

# (list of the sizes, list of the counts, count); before 5.0 the last two in place of the first.
LARGE = (
    ("lextent", "lextents", "curlextents"),
    ("lrun", "lruns", "curruns"),
    ("hchunk", "hchunks", "curhchunks"),
)


# Since 5.3.0 malloc_stats_print allocates this for its report, in arena 0.
BUFFER = 65536


def has_buffer(report, arena):
    version = [int(part) for part in report["version"].split("-")[0].split(".")]
    return version >= [5, 3, 0] and arena in ("merged", "0")


def totals(report, arena="merged"):
    """Returns the numbers of an arena, or of all: a report of one arena has no sum."""
    arenas = report["stats.arenas"]
    return arenas[arena] if arena in arenas else arenas["0"]


def of(report, arena="merged"):
    """Returns {size: {...}} of the classes with objects or slabs, with the tool's names."""
    found, counts = {}, totals(report, arena)
    for kind, numbers in zip(report["arenas"]["bin"], counts["bins"]):
        slabs = numbers.get("curslabs", numbers.get("curruns"))
        objects, size = numbers["curregs"], kind["size"]
        if slabs:
            found[size] = {
                "objects": objects,
                "live": objects * size,
                "slabs": slabs,
                "nonfull": numbers.get("nonfull_slabs"),
                "per_slab": kind["nregs"],
                "waste": (slabs * kind["nregs"] - objects) * size,
            }
    for sizes, names, count in LARGE:
        for kind, numbers in zip(report["arenas"].get(sizes, ()), counts.get(names, ())):
            if numbers[count]:
                found[kind["size"]] = {
                    "objects": numbers[count],
                    "live": numbers[count] * kind["size"],
                }
    if has_buffer(report, arena) and BUFFER in found:
        found[BUFFER]["objects"] -= 1
        found[BUFFER]["live"] -= BUFFER
    return {size: row for size, row in found.items() if row["live"] or "slabs" in row}


def large_bytes(report):
    """Returns the bytes of large objects that jemalloc has counted, of each its own size."""
    buffer = BUFFER if has_buffer(report, "merged") else 0
    return totals(report)["large"]["allocated"] - buffer


def told(classes):
    """The same of the classes that the tool prints in JSON."""
    return {
        item["size"]: {
            name: item[name]
            for name in ("objects", "live", "slabs", "nonfull", "per_slab", "waste")
            if name in item
        }
        for item in classes
        if item["objects"] or item.get("slabs")
    }
