#!/usr/bin/env bash
# Copies a module of a neighbour into a folder, changed so that it is built with the
# libraries and the release of Go of this repository. The neighbour's go.mod replaces the
# module by the copy.
#
#   copy.sh NEIGHBOUR MODULE FOLDER [FILE...]    FILEs are left out
set -euo pipefail
neighbour=$1 module=$2 folder=$3
shift 3
cd "$(dirname "$0")/$neighbour"
version=$(sed -n "s,^\(require \)\?\t\?$module \(v[^ ]*\).*,\2,p" go.mod)
# The release of Go that parity/release138 needs reads modules that ask for a newer patch.
original=$(cd / && GOTOOLCHAIN=go1.27.3 "${GO:-go}" mod download -json "$module@$version" |
	sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
cp -R "$original" "$folder"
chmod -R u+w "$folder"
cd "$folder"
find . -name '*_test.go' -delete
rm -f "$@"
"${GO:-go}" mod edit -go=1.26.0 go.mod
