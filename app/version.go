package app

import "runtime/debug"

// Version returns the version that this binary was built from: a release, or a commit between releases; "unknown" if the build did
// not record it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "unknown"
}
