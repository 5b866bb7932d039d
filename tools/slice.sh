#!/bin/sh
# slice.sh K/N prints every Nth line of its input from the Kth on: K runs from 1 to N.
# With a second argument it prints a regular expression that matches these lines.
set -eu
awk -v slice="$1" -v one="${2-}" '
BEGIN { split(slice, part, "/") }
NR % part[2] == part[1] % part[2] {
	if (one == "") print
	else all = all (all == "" ? "" : "|") $0
}
END { if (one != "") print "^(" all ")$" }'
