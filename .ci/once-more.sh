#!/bin/sh
# Runs the pytest command given; where it fails in no more than three tests, these run once more, alone, with the same
# flags: examples that a seed made are the same ones. What passes only there is named in the last lines of the run.
# In the tests boards boot, links break and programs are killed, three files at a time, on a machine that may be shared:
# what failed beside others and passes alone is mended, though the run counts as passed. What fails alone is a failure.
set -u
most=3
list=.pytest_cache/v/cache/lastfailed
rm -f "$list" # an earlier run's
status=0
"$@" || status=$?
test "$status" -eq 1 || exit "$status" # 1: tests failed; anything else is no matter of tests
names=$(sed -n 's/^ *"\(.*\)": true,\{0,1\}$/\1/p' "$list")
test -n "$names" || exit 1
count=$(printf '%s\n' "$names" | wc -l)
if test "$count" -gt "$most"; then
	echo "$count tests failed: they are not run once more, which is for $most at most"
	exit 1
fi
printf '=== run once more, alone:\n%s\n' "$names"
"$@" --numprocesses 0 --last-failed --last-failed-no-failures none || exit $?
printf '=== %s failed beside others and passed alone, to be mended:\n%s\n' "$count of the tests" "$names"
