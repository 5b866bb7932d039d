#!/usr/bin/env bash
# Runs the tests that take too long for `make test`, in parts and in slices of parts.
#
#   nightly.sh list             print the parts
#   nightly.sh choose COMMIT... print the slice that CI runs for a commit, such as faults-3
#   nightly.sh run [NAME...]    run all parts, or these parts and slices
set -euo pipefail
cd "$(dirname "$0")/.."

# parts prints a line for each part: its name, the number of its slices, and its tests beyond
# `make test`. A slice takes at most about twelve minutes on two cores.
parts() {
	cat <<'END'
lint     1   all linters in the modules that import Kubernetes, Helm or Prometheus (make test: six)
faults   10  seeds 1..500 of the fault simulations (make test: 1..6)
random   6   300 seeds of each test with random clusters (make test: 20 or 40)
parity   4   seeds 1..100 and two of each sequence beside kube-scheduler (make test: 1..20 and one)
parity138 2  seeds 1..50 and one of each sequence beside kube-scheduler 1.38 (make test: none)
neighbours 3 descheduler, Kueue and Karpenter beside both schedulers (make test: none)
reports  1   reports of operators on both schedulers (make test: Berth alone)
fuzz     200 30 million inputs for each fuzz target (make test: 200,000)
soak     1   a simulated month (make test: a few days)
mutants  12  every small fault in the packages (make test: a sample for a minute)
bench    4   each benchmark as long as it takes (make test: once)
compare  12  pods/s, large clusters, gangs and the shadow beside kube-scheduler (make test: none)
END
}

# of prints the share K of N of 1..LAST as a range.
of() { # K N LAST
	echo "$((($1 - 1) * $3 / $2 + 1))..$(($1 * $3 / $2))"
}

# target runs a target of make.
target() {
	echo "make $*"
	"${MAKE:-make}" --no-print-directory "$@"
}

slice() { # PART K N
	local k=$2 n=$3
	case $1 in
	lint) target lint-large LINTERS= ;;
	faults) target simulate-faults "SEEDS=$(of "$k" "$n" 500)" ;;
	random) target random-tests "SLICE=$k/$n" ;;
	parity)
		if [ "$k" = "$n" ]; then
			target parity PARITY_FLAGS='-shapes sequences'
		else
			target parity "PARITY_FLAGS=-shapes shapes -seeds $(of "$k" $((n - 1)) 100)"
		fi
		;;
	parity138)
		if [ "$k" = "$n" ]; then
			target parity138-rules
			target parity KUBERNETES=1.38 PARITY_FLAGS='-shapes sequences -sequence-seeds 1'
		else
			target parity KUBERNETES=1.38 "PARITY_FLAGS=-shapes shapes -seeds $(of "$k" $((n - 1)) 50)"
		fi
		;;
	neighbours) target neighbours "NEIGHBOUR=$(neighbour "$k")" ;;
	reports | soak) target "$1" ;;
	fuzz) fuzz "$k" "$n" ;;
	mutants) target mutate "SLICE=$k/$n" ;;
	bench) target bench "SLICE=$k/$n" ;;
	compare) compare "$k" "$n" ;;
	esac
}

neighbour() { # K
	local names=(descheduler kueue karpenter)
	echo "${names[$1 - 1]}"
}

targets=() # of fuzzing

# fuzz tries one target in each slice; after one round of all targets comes the next.
fuzz() { # K N
	local name
	[ "${#targets[@]}" -gt 0 ] ||
		mapfile -t targets < <(git grep -hoE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' | sed 's/func //' | sort -u)
	name=${targets[($1 - 1) % ${#targets[@]}]}
	target fuzz "FUZZ=$name" "FUZZTIME=$((30000000 * ${#targets[@]} / $2))x"
}

compare() { # K N
	local one='--rounds 1 --large-nodes 0'
	case $1 in
	1) target compare QUICK=1 ;;
	2) target compare COMPARE_FLAGS="$one --shapes plain" ;;
	3) target compare COMPARE_FLAGS="$one --shapes mixed --running 0" ;;
	4) target kubectl-size ;;
	5) target shadow-demo ;;
	6) target gang-bench ;;
	*) target compare COMPARE_FLAGS="$one --shapes none --scale 0.1" "WORKLOADS=$(($1 - 6))/$(($2 - 6))" ;;
	esac
}

# slices prints the slices of the named parts and slices, each as PART K N.
slices() {
	local name part known n k found
	for name in "$@"; do
		found=
		while read -r known n _; do
			part=${name%-*} k=${name##*-}
			if [ "$name" = "$known" ]; then
				found=yes
				for ((k = 1; k <= n; k++)); do echo "$known $k $n"; done
			elif [ "$part" = "$known" ] && [[ $k =~ ^[1-9][0-9]*$ ]] && [ "$k" -le "$n" ]; then
				found=yes
				echo "$known $k $n"
			fi
		done < <(parts)
		if [ -z "$found" ]; then
			echo "no part $name: see make nightly-parts" >&2
			return 1
		fi
	done
}

run() {
	local all part k n began result failed=
	if [ $# = 0 ]; then
		mapfile -t all < <(parts | cut -d' ' -f1)
		set -- "${all[@]}"
	fi
	all=$(slices "$@")
	declare -A took
	local table=()
	while read -r part k n; do
		echo "nightly: $part-$k of $n"
		began=$SECONDS result=ok
		slice "$part" "$k" "$n" </dev/null || { result=failed failed="$failed, $part-$k"; }
		took[$part]=$((${took[$part]-0} + SECONDS - began))
		table+=("$(printf '%-14s %7s  %s' "$part-$k" "$(clock $((SECONDS - began)))" "$result")")
	done <<<"$all"
	echo
	echo 'make nightly, by slice:'
	printf '  %s\n' "${table[@]}"
	echo 'By part, with its tests beyond make test:'
	while read -r part n adds; do
		[ -z "${took[$part]-}" ] || printf '  %-8s %7s  %s\n' "$part" "$(clock "${took[$part]}")" "$adds"
	done < <(parts)
	if [ -n "$failed" ]; then
		echo "failed: ${failed#, }" >&2
		return 1
	fi
}

clock() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

# choose takes the part from the first digits of the commit's hash and the slice from the
# next, so that every part has its turn as often.
choose() { # COMMIT...
	local commit hash all part n
	mapfile -t all < <(parts)
	for commit in "$@"; do
		hash=$commit
		[[ $hash =~ ^[0-9a-f]{40}$ ]] || hash=$(git rev-parse "$commit")
		read -r part n _ <<<"${all[0x${hash:0:7} % ${#all[@]}]}"
		echo "$part-$((0x${hash:7:7} % n + 1))"
	done
}

case ${1-} in
list)
	echo 'make nightly PART=faults runs a part, PART=faults-3 a slice of it. The parts and their slices:'
	parts | sed 's/^/  /'
	;;
choose) shift && choose "$@" ;;
run) shift && run "$@" ;;
*) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
