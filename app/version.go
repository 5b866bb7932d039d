package app

import "runtime/debug"

// berth is the module of this package.
const berth = "github.com/berth-scheduler/berth"

// Version returns Berth's version: a release, or a commit between releases; "unknown" if the build
// did not record it, as from a folder. In a program with plugins of its own, whose main module is
// another, it is the version that the program requires.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	module := &info.Main
	for _, m := range info.Deps {
		if m.Path == berth {
			module = m
		}
	}
	if module.Replace != nil {
		module = module.Replace
	}
	if module.Version == "" || module.Version == "(devel)" {
		return "unknown"
	}
	return module.Version
}

// Commit returns the commit that this binary was built from, with "+dirty" if files had changed since; "unknown" if the build did not record it, as of a module that was downloaded.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != berth { // the commit of a program with plugins of its own is not Berth's
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
