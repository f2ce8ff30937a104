# bash completion for jeattach(1)                              -*- shell-script -*-

# Prints "PID NAME" of each process that uses jemalloc and can be read.
_jeattach_processes()
{
    local pid ns_pid name rest
    while read -r pid ns_pid name rest; do
        [[ $pid =~ ^[0-9]+$ ]] && printf '%s %s\n' "$pid" "${name//[^[:print:]]/?}"
    done < <("${COMP_WORDS[0]}" ps 2>/dev/null)
}

# The words of column $1 of jeattach ps, which is name or container.
_jeattach_column()
{
    local pid ns_pid name rest word
    while read -r pid ns_pid name rest; do
        [[ $pid =~ ^[0-9]+$ ]] || continue
        word=$name
        if [ "$1" = container ]; then
            [[ $rest =~ (^|[[:blank:]])[a-z-]+/([^[:blank:]]+)([[:blank:]]pod/[^[:blank:]]+)?$ ]] || continue
            word=${BASH_REMATCH[2]}
        fi
        [[ $word =~ ^[[:alnum:]._-]+$ ]] && printf '%s\n' "$word"
    done < <("${COMP_WORDS[0]}" ps 2>/dev/null)
}

# Prints "TID NAME" of each thread of the processes given as arguments.
_jeattach_threads()
{
    local pid comm tid name
    for pid; do
        for comm in /proc/"$pid"/task/*/comm; do
            IFS= read -r name 2>/dev/null <"$comm" || continue
            tid=${comm%/comm}
            printf '%s %s\n' "${tid##*/}" "${name//[^[:print:]]/?}"
        done
    done
}

# Offers the numbers of the lines "NUMBER NAME" on stdin that begin with $1, without
# those in $2; with the names if the candidates are only listed.
_jeattach_offer()
{
    local number name listed=()
    COMPREPLY=()
    while read -r number name; do
        [[ $number == "$1"* && " $2 " != *" $number "* ]] || continue
        COMPREPLY+=("$number")
        listed+=("$number ($name)")
    done
    case ${COMP_TYPE-} in
        33 | 63 | 64) [ ${#COMPREPLY[@]} -gt 1 ] && COMPREPLY=("${listed[@]}") ;;
    esac
}

_jeattach_words()
{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_jeattach_files()
{
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_jeattach()
{
    local cur=${COMP_WORDS[COMP_CWORD]} option='' verb='' before='' pids=() i
    local verbs='ps explain status on off dump record leak watch report stats frag peek top purge mallctl'
    local looks='--format --focus --ignore --hide --show --by-thread --allocator --no-fold --full-names --depth --lines --invert --value --unit'
    looks+=' --rows --no-inlines --debuginfod --output --force --mode'
    local looks_live='--focus --ignore --hide --show --allocator --no-fold --full-names --depth --rows --no-inlines --debuginfod'
    local choice='--name --container --cgroup' common='--json --quiet --verbose --help --version'
    local options="$common $choice --pid --timeout --thread --instance"

    COMPREPLY=()
    # Options may stand before the verb; without a verb it is ps.
    for ((i = 1; i < COMP_CWORD && ${#verb} == 0; i++)); do
        [[ " $verbs help " == *" ${COMP_WORDS[i]} "* ]] && verb=${COMP_WORDS[i]}
    done
    if [ "$COMP_CWORD" -eq 1 ] && [[ $cur != -* ]]; then
        _jeattach_words "$verbs help --help --version" "$cur"
        return
    fi
    if [ "$verb" = help ]; then
        _jeattach_words "$verbs" "$cur"
        return
    fi
    [ -n "$verb" ] || before=1
    verb=${verb:-ps}
    case $verb in
        ps) options="$common $choice --timeout" ;;
        report) options=$common ;;
        top | watch) ;;
        *) options+=' --all --subprocesses --parallel' ;;
    esac
    case $verb in
        dump) options+=" --path $looks --core --exe --root" ;;
        record) options+=" --duration --every --every-bytes --on-new-peak --step --count --keep $looks" ;;
        leak) options+=" --duration --samples --faults --period --settle $looks" ;;
        frag) options+=' --rows' ;;
        peek) options+=' --count --show-bytes --rows --core --exe --root' ;;
        explain) options+=' --duration --core --exe --root' ;;
        report) options+=" --base --between --exe --root --perf-map --sort $looks" ;;
        status) options+=' --core --exe --root' ;;
        on) options+=' --repair' ;;
        mallctl) options+=' --list' ;;
        top) options+=" --duration --every --count --once --sort $looks_live" ;;
        watch) options+=' --when --exec --output --mode --count --cooldown --keep --once --on' ;;
        stats) options+=' --full --prometheus --threads --bins --rows --sort --core --exe --root' ;;
    esac
    case $verb in
        on | off | dump | record | watch) options+=' --call --no-call' ;;
        leak | stats | status | frag | top) options+=' --no-call' ;;
    esac
    case $verb in
        on | dump | record | leak | watch | top | stats | purge | mallctl) options+=' --allow' ;;
    esac

    # readline splits --option=value into three words.
    option=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$cur" = = ]; then
        cur=
    elif [ "$option" = = ] && [ "$COMP_CWORD" -gt 2 ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 2; i < ${#COMP_WORDS[@]}; i++)); do
        [ "$i" -eq "$COMP_CWORD" ] && continue
        case ${COMP_WORDS[i - 1]} in
            -o | --output | --path | --timeout | --thread | --instance | --mode | --rows | -d | --duration | --every | --every-bytes | --step | \
                --count | --keep | --settle | -n | --name | --container | --cgroup | --parallel) continue ;;
            --when | --exec | --cooldown | --allow) continue ;;
        esac
        [[ ${COMP_WORDS[i]} =~ ^[0-9]+$ ]] && pids+=("${COMP_WORDS[i]}")
    done

    case $option in
        --when | --exec | --keep) return ;; # a rule must be quoted, which readline cannot offer
        --allow)
            _jeattach_words "hooks$([ "$verb" = on ] && echo " reset")$([ "$verb" = stats ] && echo " slow")" "$cur"
            return
            ;;
        --cooldown)
            _jeattach_words '1m 10m 1h' "$cur"
            return
            ;;
        -n | --name)
            _jeattach_words "$(_jeattach_column name)" "$cur"
            return
            ;;
        --container)
            _jeattach_words "$(_jeattach_column container)" "$cur"
            return
            ;;
        --cgroup)
            _jeattach_files "$cur"
            return
            ;;
        --parallel)
            _jeattach_words '1 2 4 8 16' "$cur"
            return
            ;;
        -o | --output)
            [[ $options == *--output* ]] && _jeattach_files "$cur"
            return
            ;;
        --sort)
            [ "$verb" = top ] && _jeattach_words 'cur growth' "$cur"
            [ "$verb" = report ] && _jeattach_words 'flat cum' "$cur"
            [ "$verb" = stats ] && _jeattach_words 'live waste size' "$cur"
            return
            ;;
        --mode)
            _jeattach_words '600 640 644 660' "$cur"
            return
            ;;
        --base | --between | --core | --exe | --root | --perf-map)
            _jeattach_files "$cur"
            return
            ;;
        -f | --format)
            _jeattach_words 'text tree flame pprof folded dot svg json raw symbolized' "$cur"
            return
            ;;
        --value)
            _jeattach_words 'inuse_space inuse_objects alloc_space alloc_objects' "$cur"
            return
            ;;
        --unit)
            _jeattach_words 'auto B KiB MiB GiB' "$cur"
            return
            ;;
        --path | --instance | --focus | --ignore | --hide | --show | --rows | --count | --keep | --step) return ;;
        -d | --duration | --every | --settle)
            _jeattach_words '10s 30s 5m 1h' "$cur"
            return
            ;;
        --every-bytes)
            _jeattach_words '100M 1G 10G' "$cur"
            return
            ;;
        --timeout)
            _jeattach_words '500ms 5s 30s 5m' "$cur"
            return
            ;;
        --thread)
            _jeattach_offer "$cur" "" < <(_jeattach_threads "${pids[@]}")
            return
            ;;
    esac
    if [[ $cur == -* ]]; then
        _jeattach_words "$options" "$cur"
    elif [ "$verb" = mallctl ] && [ ${#pids[@]} -gt 0 ]; then
        _jeattach_words 'version epoch opt. config. prof.active prof.gdump prof.reset= prof.lg_sample prof.prefix=
            prof.thread_active_init stats.allocated stats.active stats.metadata stats.resident
            stats.mapped stats.retained arenas.narenas arena.0. arena.4096.purge arena.4096.decay' "$cur"
    elif [ "$verb" = report ]; then
        _jeattach_files "$cur"
    elif [ -n "$before" ]; then
        _jeattach_words "$verbs help" "$cur"
    elif [ "$verb" = ps ]; then
        _jeattach_words "$options" "$cur"
    else
        _jeattach_offer "$cur" "${pids[*]}" < <(_jeattach_processes)
    fi
}

complete -F _jeattach jeattach
