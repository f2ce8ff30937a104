/*
 * The same as collected.c in D, whose runtime stops the world by signals, too: collected_d MODE REPORT.
 */
import core.atomic : atomicOp;
import core.memory : GC;
import core.stdc.stdlib : free, malloc;
import core.sys.posix.fcntl : O_RDWR, open;
import core.sys.posix.sys.mman;
import core.sys.posix.unistd : getpid;
import core.thread : Thread;
import core.time : usecs;
import std.string : toStringz;

enum nodes = 40, words = 13, blocks = 24, allocators = 3;

class Node
{
    Node next;
    ulong[words] values;
}

/* tests/victims/report.h */
struct Report
{
    ulong magic;
    int pid, state;
    ulong iterations, errors, eintr, early, late, errnoLost, maxLate;
    ulong helperRounds, helperLate, helperMaxLate;
    char[128] text;
}

__gshared Report* report;

void fault(string text)
{
    atomicOp!"+="(*cast(shared ulong*)&report.errors, 1);
    report.text[0 .. text.length] = text;
}

void count(ref ulong counter)
{
    atomicOp!"+="(*cast(shared ulong*)&counter, 1);
}

Node listOf(ulong seed)
{
    Node list;
    foreach (i; 0 .. nodes)
    {
        auto node = new Node;
        node.next = list;
        foreach (k, ref value; node.values)
            value = (seed + i) * 0x9e3779b97f4a7c15 + k;
        list = node;
    }
    return list;
}

bool holds(Node list, ulong seed)
{
    foreach_reverse (i; 0 .. nodes)
    {
        if (!list)
            return false;
        foreach (k, value; list.values)
            if (value != (seed + i) * 0x9e3779b97f4a7c15 + k)
                return false;
        list = list.next;
    }
    return list is null;
}

void sleeper()
{
    for (ulong round = 1;; round++)
    {
        auto list = listOf(round << 20);
        foreach (i; 0 .. 40)
        {
            Thread.sleep(500.usecs);
            if (!holds(list, round << 20))
                fault("a list that a sleeper's stack leads to was collected");
        }
        count(report.helperRounds);
    }
}

void allocator()
{
    void*[blocks] held;
    uint random = 1;
    for (ulong round = 1;; round++)
    {
        auto list = listOf(round << 20);
        foreach (i; 0 .. 2000)
        {
            random = random * 1103515245 + 12345;
            auto at = (random >> 16) % blocks;
            free(held[at]);
            held[at] = malloc(16 << (random >> 24) % 12);
        }
        if (!holds(list, round << 20))
            fault("a list that an allocator's stack leads to was collected");
        count(report.helperRounds);
    }
}

void collector()
{
    for (ulong round = 1;; round++)
    {
        auto list = listOf(round << 20);
        GC.collect();
        foreach (i; 0 .. 20)
            listOf(~round);
        if (!holds(list, round << 20))
            fault("a list that the collector's own stack leads to was collected");
        count(report.iterations);
        Thread.sleep(1000.usecs);
    }
}

int main(string[] args)
{
    if (args.length < 3)
        return 2;
    auto fd = open(args[2].toStringz, O_RDWR);
    report = cast(Report*) mmap(null, Report.sizeof, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report is cast(Report*) MAP_FAILED)
        return 1;
    new Thread(&sleeper).start();
    new Thread(&collector).start();
    foreach (i; 0 .. allocators)
        new Thread(&allocator).start();
    report.magic = 0x6d69746369765f6a;
    report.pid = getpid();
    report.state = 1;
    sleeper();
    return 0;
}
