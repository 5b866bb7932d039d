#!/bin/sh
# What `make try` runs: Berth schedules the example cluster with a thousand nodes more, in
# memory, and explains a pod that stays pending. Needs $1/berth; leaves $1/nodes.yaml, so
# that each command can be repeated.
set -eu
cd "$(dirname "$0")/.."
bin=${1:-bin}

awk 'BEGIN {
	for (i = 1; i <= 1000; i++) {
		zone = i % 2 ? "a" : "b"
		print "---\napiVersion: v1\nkind: Node"
		printf "metadata: {name: node-%d, labels: {kubernetes.io/hostname: node-%d,", i, i
		printf " topology.kubernetes.io/zone: %s, pool: web}}\n", zone
		print "status: {allocatable: {cpu: \"4\", memory: 16Gi, pods: \"110\"}}"
	}
}' >"$bin/nodes.yaml"

# show prints a command of Berth, then its output.
show() {
	echo "\$ $bin/berth $*"
	"$bin/berth" "$@"
}
show simulate -f examples/cluster.yaml -f "$bin/nodes.yaml"
echo
show explain --snapshot examples/cluster.yaml --snapshot "$bin/nodes.yaml" --pod shop/report-next
