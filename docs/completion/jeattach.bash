# bash completion for jeattach(1)                              -*- shell-script -*-

# "PID NAME" of each process that has a file named like jemalloc mapped and whose
# maps may be read. One that jemalloc is linked into is not seen here.
_jeattach_processes()
{
    local maps pid name
    while IFS= read -r maps; do
        pid=${maps#/proc/}
        pid=${pid%/maps}
        name=
        IFS= read -r name 2>/dev/null <"/proc/$pid/comm" || continue
        printf '%s %s\n' "$pid" "${name//[^[:print:]]/?}"
    done < <(grep -ls jemalloc /proc/[0-9]*/maps 2>/dev/null)
}

# "TID NAME" of each thread of the processes given as arguments.
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

# Offers the numbers of the lines "NUMBER NAME" on stdin that begin with $1, but
# those in $2; with the names where the candidates are only listed.
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
    local cur=${COMP_WORDS[COMP_CWORD]} option='' verb=${COMP_WORDS[1]-} pids=() i
    local verbs='status on off dump report'
    local looks='--format --focus --ignore --hide --show --by-thread --allocator --value --unit'
    looks+=' --rows --no-inlines --debuginfod --output'
    local options='--pid --timeout --thread --dry-run --json --quiet --verbose --help'

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _jeattach_words "$verbs help --help --version" "$cur"
        return
    fi
    if [ "$verb" = help ]; then
        [ "$COMP_CWORD" -eq 2 ] && _jeattach_words "$verbs" "$cur"
        return
    fi
    [[ " $verbs " == *" $verb "* ]] || return
    [ "$verb" = dump ] && options+=" --path $looks"
    [ "$verb" = report ] && options="--base --root --quiet --help $looks"

    # readline splits --option=value in three words.
    option=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$cur" = = ]; then
        cur=
    elif [ "$option" = = ] && [ "$COMP_CWORD" -gt 2 ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 2; i < ${#COMP_WORDS[@]}; i++)); do
        [ "$i" -eq "$COMP_CWORD" ] && continue
        case ${COMP_WORDS[i - 1]} in
            -o | --output | --path | --timeout | --thread | --rows) continue ;;
        esac
        [[ ${COMP_WORDS[i]} =~ ^[0-9]+$ ]] && pids+=("${COMP_WORDS[i]}")
    done

    case $option in
        -o | --output)
            [[ $options == *--output* ]] && _jeattach_files "$cur"
            return
            ;;
        --base | --root)
            _jeattach_files "$cur"
            return
            ;;
        -f | --format)
            _jeattach_words 'text flame pprof folded dot svg raw symbolized' "$cur"
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
        --path | --focus | --ignore | --hide | --show | --rows) return ;;
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
    elif [ "$verb" = report ]; then
        _jeattach_files "$cur"
    else
        _jeattach_offer "$cur" "${pids[*]}" < <(_jeattach_processes)
    fi
}

complete -F _jeattach jeattach
