# fish completion for jeattach(1)

set -g __jeattach_verbs ps explain status on off dump record leak watch report stats frag peek top purge mallctl help

# True if the verb is one of the arguments. Options may stand before it; without a verb it is ps.
function __jeattach_verb
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if contains -- $word $__jeattach_verbs
            contains -- $word $argv
            return
        end
    end
    contains -- ps $argv
end

function __jeattach_no_verb
    set -l words (commandline -opc)
    for word in $words[2..-1]
        contains -- $word $__jeattach_verbs; and return 1
    end
    return 0
end

# Prints "PID<tab>NAME" of each process that uses jemalloc and can be read.
function __jeattach_processes
    set -l words (commandline -opc)
    command $words[1] ps 2>/dev/null | string match -rg '^ *(\d+) +\d+ +(\S+)' | paste -d '\t' - -
end

# Prints the names of these processes.
function __jeattach_names
    set -l words (commandline -opc)
    command $words[1] ps 2>/dev/null | string match -rg '^ *\d+ +\d+ +(\S+)'
end

# Prints the ids of the containers of these processes.
function __jeattach_containers
    set -l words (commandline -opc)
    command $words[1] ps 2>/dev/null | string match -rg ' [a-z-]+/([[:xdigit:]]+)(?: pod/\S+)?$'
end

# Prints "TID<tab>NAME" of each thread of the processes on the line.
function __jeattach_threads
    for pid in (commandline -opc | string match -r '^\d+$')
        for comm in /proc/$pid/task/*/comm
            read -l name <$comm 2>/dev/null
            and printf '%s\t%s\n' (string match -rg 'task/(\d+)/' $comm) $name
        end
    end
end

set -l verbs ps explain status on off dump record leak watch report stats frag peek top purge mallctl
set -l processes explain status on off dump record leak watch stats frag peek top purge mallctl
set -l several explain status on off dump record leak stats frag peek purge mallctl
set -l calls on off dump record watch
set -l hooks on dump record leak watch stats top purge mallctl
set -l sites dump record leak report top
set -l looks dump record leak report
set -l cores explain status dump stats peek

complete -c jeattach -f

# ---- verbs ----
complete -c jeattach -n __jeattach_no_verb -a ps -d 'list the processes on this host that use jemalloc'
complete -c jeattach -n __jeattach_no_verb -a status -d 'show whether jemalloc can profile, whether it does, and what to do'
complete -c jeattach -n __jeattach_no_verb -a explain -d 'explain the memory of a process on one screen'
complete -c jeattach -n __jeattach_no_verb -a on -d 'start sampling allocations (prof.active)'
complete -c jeattach -n __jeattach_no_verb -a off -d 'stop sampling allocations'
complete -c jeattach -n __jeattach_no_verb -a dump -d 'write a heap profile, here (-o) or in the target'
complete -c jeattach -n __jeattach_no_verb -a record -d 'sample for a while, write a profile, restore the former state'
complete -c jeattach -n __jeattach_no_verb -a leak -d 'show what grows in a process, and which calls make it grow'
complete -c jeattach -n __jeattach_no_verb -a report -d 'show a profile from a file as a table, flame graph, pprof, ...'
complete -c jeattach -n __jeattach_no_verb -a stats -d 'show where the memory is, by the counts of jemalloc and the kernel'
complete -c jeattach -n __jeattach_no_verb -a frag -d 'show which stacks keep free memory from being returned'
complete -c jeattach -n __jeattach_no_verb -a peek -d 'show what the objects in the heap are, by a sample'
complete -c jeattach -n __jeattach_no_verb -a top -d 'show memory and the largest allocation sites, live'
complete -c jeattach -n __jeattach_no_verb -a watch -d 'write a profile at a size, near a memory limit, or under pressure'
complete -c jeattach -n __jeattach_no_verb -a purge -d 'return unused memory from jemalloc to the kernel'
complete -c jeattach -n __jeattach_no_verb -a mallctl -d 'read or write any setting or counter of jemalloc, by its name'
complete -c jeattach -n __jeattach_no_verb -a help -d 'show help, of a verb if one is given'
complete -c jeattach -n "__jeattach_verb help" -a "$verbs"

# ---- operands ----
complete -c jeattach -n "__jeattach_verb $processes" -a '(__jeattach_processes)'
complete -c jeattach -n '__jeattach_verb report' -F
complete -c jeattach -n '__jeattach_verb mallctl' -a 'version epoch opt. config. prof.active prof.gdump prof.reset= prof.lg_sample prof.prefix= prof.thread_active_init stats.allocated stats.active stats.metadata stats.resident stats.mapped stats.retained arenas.narenas arena.0. arena.4096.purge arena.4096.decay'

# ---- options of every verb ----
complete -c jeattach -n "__jeattach_verb $verbs" -l json -d 'print the result as one JSON object'
complete -c jeattach -n "__jeattach_verb $verbs" -s q -l quiet -d 'suppress the closing line on stderr'
complete -c jeattach -n "__jeattach_verb $verbs" -s v -l verbose -d 'show which thread was chosen and why'
complete -c jeattach -n "__jeattach_verb $verbs" -s h -l help -d 'show help'
complete -c jeattach -n "__jeattach_verb $verbs" -s V -l version -d 'show the version'

# ---- which processes ----
complete -c jeattach -n "__jeattach_verb ps $processes" -s n -l name -x -a '(__jeattach_names)' -d 'by name'
complete -c jeattach -n "__jeattach_verb ps $processes" -l container -x -a '(__jeattach_containers)' -d 'in this container'
complete -c jeattach -n "__jeattach_verb ps $processes" -l cgroup -r -F -d 'in this cgroup or one below it'
complete -c jeattach -n "__jeattach_verb ps $processes" -l timeout -x -a '500ms 5s 30s 5m' -d 'time limit for each process'
complete -c jeattach -n "__jeattach_verb $processes" -s p -l pid -x -a '(__jeattach_processes)' -d 'the process'
complete -c jeattach -n "__jeattach_verb $processes" -l thread -x -a '(__jeattach_threads)' -d 'use only this thread'
complete -c jeattach -n "__jeattach_verb $processes" -l instance -x -d 'use this jemalloc, if the process contains several'
complete -c jeattach -n "__jeattach_verb $several" -l all -d 'all processes that match'
complete -c jeattach -n "__jeattach_verb $several" -s s -l subprocesses -d 'each process and its descendants'
complete -c jeattach -n "__jeattach_verb $several" -l parallel -x -a '1 2 4 8 16' -d 'work on at most this many processes at once'

# ---- how it is done ----
complete -c jeattach -n "__jeattach_verb status stats leak frag top $calls" -l no-call -d 'make no call and stop nothing'
complete -c jeattach -n "__jeattach_verb $calls" -l call -d 'make a thread of the process call jemalloc'
complete -c jeattach -n "__jeattach_verb $hooks" -l allow -x -a 'hooks reset slow' -d 'allow what is refused otherwise'
complete -c jeattach -n "__jeattach_verb $cores" -l core -r -F -d 'read a process that has ended from its core file'
complete -c jeattach -n "__jeattach_verb report $cores" -l exe -r -F -d 'the program, if it is no longer at its path'
complete -c jeattach -n "__jeattach_verb report $cores" -l root -r -F -d 'look for the binaries below this directory'

# ---- how a profile is written and shown ----
complete -c jeattach -n "__jeattach_verb watch $looks" -s o -l output -r -F -d 'write to this file, or directory; - is stdout'
complete -c jeattach -n "__jeattach_verb $looks" -l force -d 'replace the file of -o if it exists'
complete -c jeattach -n "__jeattach_verb watch $looks" -l mode -x -a '600 640 644 660' -d 'give the file of -o this mode'
complete -c jeattach -n "__jeattach_verb $looks" -s f -l format -x -a 'text tree flame pprof folded dot svg json raw symbolized' -d 'format of the profile'
complete -c jeattach -n "__jeattach_verb $looks" -l by-thread -d 'show threads as the outermost calls'
complete -c jeattach -n "__jeattach_verb $looks" -l value -x -a 'inuse_space inuse_objects alloc_space alloc_objects' -d 'what the numbers count'
complete -c jeattach -n "__jeattach_verb $looks" -l unit -x -a 'auto B KiB MiB GiB' -d 'unit of sizes'
complete -c jeattach -n "__jeattach_verb $looks" -l lines -d 'show lines of the source instead of functions'
complete -c jeattach -n "__jeattach_verb $looks" -l invert -d 'begin the tree with the functions that allocate'
complete -c jeattach -n "__jeattach_verb $sites" -l focus -x -d 'show only stacks with a call that matches'
complete -c jeattach -n "__jeattach_verb $sites" -l ignore -x -d 'omit stacks with a call that matches'
complete -c jeattach -n "__jeattach_verb $sites" -l hide -x -d 'omit matching calls from their stacks'
complete -c jeattach -n "__jeattach_verb $sites" -l show -x -d 'omit all other calls from their stacks'
complete -c jeattach -n "__jeattach_verb $sites" -l allocator -d "keep the allocator's own calls"
complete -c jeattach -n "__jeattach_verb $sites" -l no-fold -d "keep the innermost calls of the language's library"
complete -c jeattach -n "__jeattach_verb $sites" -l full-names -d 'show names with template arguments and parameters'
complete -c jeattach -n "__jeattach_verb $sites" -l depth -x -d 'show at most this many calls of a stack'
complete -c jeattach -n "__jeattach_verb $sites" -l rows -x -d 'show at most this many rows'
complete -c jeattach -n "__jeattach_verb $sites" -l no-inlines -d 'use only symbol tables'
complete -c jeattach -n "__jeattach_verb $sites" -l debuginfod -d 'ask servers for debug information'
complete -c jeattach -n '__jeattach_verb top' -l sort -x -a 'cur growth' -d 'order of the sites'
complete -c jeattach -n '__jeattach_verb report' -l sort -x -a 'flat cum' -d 'order of the functions'
complete -c jeattach -n '__jeattach_verb report' -l base -r -F -d 'show the growth since this profile'
complete -c jeattach -n '__jeattach_verb report' -l between -r -F -d 'a profile from the time between the two'
complete -c jeattach -n '__jeattach_verb report' -l perf-map -r -F -d 'take names of code made at run time from this file'

# ---- options of some verbs ----
complete -c jeattach -n '__jeattach_verb dump' -l path -x -d 'write to this path in the target'
complete -c jeattach -n '__jeattach_verb explain record leak top' -s d -l duration -x -a '10s 30s 5m 1h' -d 'how long to sample'
complete -c jeattach -n '__jeattach_verb record top' -l every -x -a '2s 30s 5m 1h' -d 'time between two profiles or refreshes'
complete -c jeattach -n '__jeattach_verb record' -l every-bytes -x -a '100M 1G 10G' -d 'take a series: one profile each time that so much was allocated'
complete -c jeattach -n '__jeattach_verb record' -l on-new-peak -d 'take a series: one profile at each new peak of the RSS'
complete -c jeattach -n '__jeattach_verb record' -l step -x -d 'percent from one peak to the next'
complete -c jeattach -n '__jeattach_verb record top watch peek' -l count -x -d 'how many profiles, refreshes or objects'
complete -c jeattach -n '__jeattach_verb record watch' -l keep -x -d 'keep the last profiles'
complete -c jeattach -n '__jeattach_verb leak' -l settle -x -a '10s 30s 5m' -d 'switch sampling off for this long before the second profile'
complete -c jeattach -n '__jeattach_verb on' -l repair -d 'switch on the threads in which thread.prof.active is false'
complete -c jeattach -n '__jeattach_verb mallctl' -l list -d 'list names and their values'
complete -c jeattach -n '__jeattach_verb stats' -l threads -d 'show each thread'
complete -c jeattach -n '__jeattach_verb stats' -l full -d "print jemalloc's own report as text"
complete -c jeattach -n '__jeattach_verb stats' -l prometheus -d 'print the rows as Prometheus metrics'
complete -c jeattach -n '__jeattach_verb top watch' -l once -d 'end after the first refresh or profile'
complete -c jeattach -n '__jeattach_verb watch' -l when -x -a 'rss\>80% cgroup\>85% psi.some\>20%/10s grow\>20%/10m' -d 'write a profile when this rule holds'
complete -c jeattach -n '__jeattach_verb watch' -l exec -x -d 'start this command when a rule holds'
complete -c jeattach -n '__jeattach_verb watch' -l cooldown -x -a '1m 10m 1h' -d 'wait this long before the same rule fires again'
complete -c jeattach -n '__jeattach_verb watch' -l on -d 'switch profiling on at the start, and back at the end'
complete -c jeattach -n '__jeattach_verb leak' -l samples -d 'take stacks only from the samples of profiling'
complete -c jeattach -n '__jeattach_verb leak' -l faults -d 'take stacks only from page faults'
complete -c jeattach -n '__jeattach_verb leak' -l period -x -d 'take a sample every N page faults'
complete -c jeattach -n '__jeattach_verb peek' -l show-bytes -d 'also print the first bytes of examples'
complete -c jeattach -n '__jeattach_verb peek frag' -l rows -x -d 'show at most N rows; 0: all'
complete -c jeattach -n '__jeattach_verb stats' -l bins -d 'show each size class'
complete -c jeattach -n '__jeattach_verb stats' -l rows -x -d 'show at most N rows; 0: all'
complete -c jeattach -n '__jeattach_verb stats' -l sort -x -a 'live waste size' -d 'order of the size classes'
