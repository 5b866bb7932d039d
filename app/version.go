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

// Commit returns the commit that this binary was built from, with "+dirty" if files had changed since; "unknown" if the build did not record it, as of a module that was downloaded.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return commitOf(info.Settings)
}

func commitOf(settings []debug.BuildSetting) string {
	hash, changed := "unknown", false
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			hash = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed {
		hash += "+dirty"
	}
	return hash
}
