# Runs tests and keeps their results: sourced by ./test and by tests/e2e_unsteady.py, in the
# project's root, with these set:
#
#   logs     directory for the output of ctest
#   results  file with a line for each result: RESULT<TAB>NAME<TAB>REASON, where RESULT is passed,
#            failed, skipped, or unsteady for a test that failed and passed when it was repeated
#   jobs     slots for tests that run side by side
#   sudo     the command that runs a command as root; empty for root

record() { # RESULT NAME REASON
    printf '%s\t%s\t%s\n' "$1" "$2" "${3-}" >> "$results"
}

# An unsteady test counts as passed.
counts() { # [PREFIX]
    awk -F'\t' -v prefix="${1-}" 'index($2, prefix) == 1 { n[$1]++ }
        END { printf "%d passed, %d failed, %d skipped", n["passed"] + n["unsteady"],
            n["failed"], n["skipped"] }' "$results"
}

with_result() { # RESULT FORMAT: of printf, for the name and the reason
    awk -F'\t' -v result="$1" -v format="$2" '$1 == result { printf format "\n", $2, $3 }' \
        "$results"
}

run_ctest() { # NAME DIRECTORY CTEST-ARGUMENTS...
    local name=$1 directory=$2
    shift 2
    rm -f "$logs/$name.xml"
    $sudo env "PATH=$PATH" ${JEATTACH_LONG:+"JEATTACH_LONG=1"} ctest --test-dir "$directory" --output-on-failure \
        --output-junit "$logs/$name.xml" "$@" > "$logs/$name-tests.log" 2>&1
}

# A test that failed is repeated once, alone, because a busy machine is no failure. Tests that look
# for harm (label harm) are never repeated: there, one failure in a thousand is the finding. Both
# outputs are kept.
repeat_failed() { # NAME DIRECTORY
    local failed
    rm -f "$logs/$1-again.xml" "$logs/$1-again-tests.log"
    failed=$(python3 tests/tally.py --failed "$logs/$1.xml" 2> /dev/null)
    [ -z "$failed" ] || run_ctest "$1-again" "$2" -j 1 -R "$failed" -LE '^harm$'
}

# Runs the tests of one build that the arguments select, as root: they read other processes.
run_tests() { # NAME DIRECTORY CTEST-ARGUMENTS...
    local name=$1 directory=$2 started=$SECONDS log=$logs/$1-tests.log
    run_ctest "$name" "$directory" -j "$jobs" "${@:3}"
    repeat_failed "$name" "$directory"
    if ! python3 tests/tally.py "$logs/$name.xml" "$name: " "$logs/$name-again.xml" \
        >> "$results" 2>> "$log"; then
        record failed "$name: tests" "ctest did not run, see $log"
    fi
    printf '        %-44s %4d s\n' "$name tests: $(counts "$name: ")" $((SECONDS - started))
    show_failures "$name: "
    [ -z "$sudo" ] || $sudo chown -R "$(id -u):$(id -g)" "$directory" "$logs"
}

# All names first, because the outputs may be long.
show_failures() { # PREFIX
    local result name reason shown=0
    awk -F'\t' -v prefix="$1" 'index($2, prefix) == 1 {
        if ($1 == "failed") print "FAILED  " $2 " " $3
        if ($1 == "unsteady") print "unsteady " $2 " " $3 }' "$results"
    while IFS=$'\t' read -r result name reason; do
        case $result:$name in
            "failed:$1"* | "unsteady:$1"*)
                [ $((shown += 1)) -gt 10 ] && break
                echo "        the last output of $name:"
                failure_output "${1%: }" "${name#"$1"}"
                ;;
        esac
    done < "$results"
}

# Prints the end of the output of one failed test, in its first run.
failure_output() { # BUILD TEST
    python3 - "$logs/$1.xml" "$2" << 'END'
import sys, xml.etree.ElementTree as tree
try:
    root = tree.parse(sys.argv[1]).getroot()
except (OSError, tree.ParseError):
    sys.exit()
for case in root.iter("testcase"):
    if case.get("name") == sys.argv[2]:
        lines = (case.findtext("system-out") or "").splitlines()
        print("\n".join("    " + line for line in lines[-25:]))
END
}

# The last line is for programs: its form never changes. Fails if a test failed, or none passed.
summary() {
    local counted unsteady
    counted=$(counts)
    unsteady=$(grep -c '^unsteady' "$results")
    with_result skipped 'skipped: %s: %s'
    with_result failed 'failed: %s'
    with_result unsteady 'unsteady: %s: %s'
    [ "$unsteady" -eq 0 ] || echo "$unsteady unsteady, counted as passed"
    echo "$counted"
    [[ $counted != "0 passed"* && $counted == *", 0 failed,"* ]]
}
