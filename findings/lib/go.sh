# Sourced by the findings that are Go programs.
#
# expect NAME WANT PACKAGE@VERSION... compiles the Go program on standard input against
# these packages, runs it, and prints its output. It fails if the output is not WANT.
# OLD=NEW@VERSION in place of a package replaces a module. like=FOLDER, as the first
# argument, takes the versions of libraries from a module of this repository, so that they
# are compiled once. CGO=1 permits C.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

expect() {
	local name=$1 want=$2 got packages=()
	shift 2
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	cd "$folder"
	cat >main.go
	export CGO_ENABLED=${CGO:-0} GOFLAGS="$(go env GOFLAGS) -mod=mod" GOWORK=off
	go mod init finding 2>log
	for package; do
		case $package in
		like=*)
			cp "$top/${package#like=}"/go.{mod,sum} .
			for copied in $(sed -n 's/^replace \(.*\) => \.\..*/\1/p' go.mod); do
				go mod edit -dropreplace="$copied" -droprequire="$copied"
			done
			;;
		*=*) go mod edit -replace="$package" ;;
		*) packages+=("$package") ;;
		esac
	done
	{ go get "${packages[@]}" && go build -o run .; } >log 2>&1 || { cat log >&2; exit 1; }
	got=$(./run 2>log) || { cat log >&2; exit 1; }
	echo "$got"
	diff <(echo "$want") <(echo "$got") >log || { echo "$name has changed:" >&2; cat log >&2; exit 1; }
	echo "$name: as found"
}
