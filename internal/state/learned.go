package state

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berth-scheduler/berth/internal/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// An object that the API server answered a write with is known before the watch shows it. Until the watch has shown that version or a newer one, what it
// shows of the object is older, and must not replace it. Otherwise the watch is the truth, also if it shows an older version than before, as when etcd was
// restored from a backup.

// learn takes in a version that the API server answered a write with. It comes on another way than what the watch shows: the watch may have shown a newer
// version, or that the object is gone, before. So an object that is not known is not stored, unless the write has made it and the watch has never shown it.
func (s *State) learn(object model.Compiled, delta *Delta) {
	ref := object.Ref()
	switch before := s.compiled(ref); {
	case before == nil && !(ref.Kind == model.ResourceClaimKind && s.devices.IsAwaited(ref.ClaimKey())):
		return
	case before != nil && (before.UID() != object.UID() || !isOlder(before, object)):
		return
	}
	s.storeCompiled(object, delta)
	s.learned[ref] = struct{}{}
}

// isBehind reports whether the watch shows a version that is not newer than the one that was learned. It ends what was learned when the watch has caught up.
func (s *State) isBehind(object model.Compiled) bool {
	ref := object.Ref()
	if _, ok := s.learned[ref]; !ok {
		return false
	}
	known := s.compiled(ref)
	if known.UID() == object.UID() && isOlder(object, known) {
		return true
	}
	delete(s.learned, ref)
	return known.UID() == object.UID() && known.Version() == object.Version()
}

// isOlder reports whether a version is older than another one of the same object. Versions that no API server gives are not.
func isOlder(one, other model.Compiled) bool {
	order, err := resourceversion.CompareResourceVersion(one.Version(), other.Version())
	return err == nil && order < 0
}

// auditLearned checks that what was learned is known.
func (s *State) auditLearned(v *audit.Violations) {
	for ref := range s.learned {
		if s.compiled(ref) == nil {
			v.Add("a version of %v was learned, which does not exist", ref)
		}
	}
}
