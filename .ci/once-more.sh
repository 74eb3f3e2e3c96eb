#!/bin/sh
# Runs the pytest command given; where it fails in no more than three tests, these run once more, alone, and are named.
# In the tests boards boot, links break and programs are killed, three files at a time, on a machine that may be shared:
# what failed beside others and passes alone is told loudly, and mended. What fails alone as well is a failure.
set -u
most=3
status=0
"$@" || status=$?
test "$status" -eq 1 || exit "$status" # 1: tests failed; anything else is no matter of tests
list=.pytest_cache/v/cache/lastfailed
count=$(grep -c ': true' "$list") || exit 1
if test "$count" -gt "$most"; then
	echo "$count tests failed: they are not run once more, which is for $most at most"
	exit 1
fi
echo "=== run once more, alone:"
grep ': true' "$list"
"$1" --last-failed --last-failed-no-failures none || exit $?
echo "=== $count of the tests failed beside others and passed alone: named above, to be mended"
