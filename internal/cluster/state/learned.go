package state

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// The response to a write has a newer version of the object than the watch. Until the
// watch has shown that version or a later one, its versions are older and must not
// replace the learned one. Otherwise the watch is right, even if it shows an older
// version than before, as after a restore of etcd from a backup.

// learn stores the version in the API server's response to a write. The watch is a
// separate stream: it may already have shown a newer version, or the deletion. So an
// unknown object is not stored, unless the write created it and the watch has never shown
// it.
func (s *State) learn(object model.Compiled, delta *Delta) {
	ref := object.Ref()
	before := s.compiled(ref)
	switch {
	case before == nil && !(ref.Kind == model.ResourceClaimKind && s.devices.IsAwaited(ref.ClaimKey())):
		return
	case before != nil && (before.UID() != object.UID() || !isOlder(before, object)):
		return
	}
	if before == nil {
		if s.unseen == nil {
			s.unseen = map[model.Ref]struct{}{}
		}
		s.unseen[ref] = struct{}{}
	}
	s.storeCompiled(object, delta)
	s.learned[ref] = struct{}{}
}

// seen records that the watch has shown a version of a claim.
func (s *State) seen(claim model.Compiled) {
	s.notUnseen(claim.Ref())
	if s.shownLast == nil || isOlder(s.shownLast, claim) {
		s.shownLast = claim
	}
}

func (s *State) notUnseen(ref model.Ref) {
	if delete(s.unseen, ref); len(s.unseen) == 0 {
		s.unseen = nil
	}
}

// forgetUnseen removes claims that were created and deleted while the watch was
// interrupted, because the watch will never show their deletion. The versions of all
// claims come in order, except after a new list. So a claim is kept while devices are
// promised to it, or while its pod is on a node.
func (s *State) forgetUnseen(delta *Delta) {
	if len(s.unseen) == 0 || s.shownLast == nil {
		return
	}
	var gone []model.Ref
	for ref := range s.unseen {
		claim := s.compiled(ref).(*model.ResourceClaim)
		if isOlder(claim, s.shownLast) && !s.devices.IsPromised(claim.Key) && !s.hasOwner(claim) {
			gone = append(gone, ref)
		}
	}
	slices.SortFunc(gone, func(a, b model.Ref) int { return a.ClaimKey().Compare(b.ClaimKey()) })
	for _, ref := range gone {
		s.removeCompiled(ref, delta)
	}
}

// hasOwner reports whether the pod that owns a claim is on a node.
func (s *State) hasOwner(claim *model.ResourceClaim) bool {
	owner := metav1.GetControllerOf(claim.Object)
	if owner == nil {
		return false
	}
	p := s.placed[model.PodKey{Namespace: claim.Key.Namespace, Name: owner.Name}]
	return p != nil && p.pod.UID == owner.UID
}

// isBehind reports whether a version from the watch is not newer than the learned one.
// Once the watch has caught up, the object no longer counts as learned.
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

// isOlder reports whether a version of an object is older than another version. Versions
// that cannot be compared are not older.
func isOlder(one, other model.Compiled) bool {
	order, err := resourceversion.CompareResourceVersion(one.Version(), other.Version())
	return err == nil && order < 0
}

// auditLearned checks that all learned objects exist.
func (s *State) auditLearned(v *audit.Violations) {
	for ref := range s.learned {
		if s.compiled(ref) == nil {
			v.Add("a version of %v was learned, which does not exist", ref)
		}
	}
	for ref := range s.unseen {
		if _, ok := s.learned[ref]; !ok || ref.Kind != model.ResourceClaimKind {
			v.Add("%v was never shown, and was not learned as a claim", ref)
		}
	}
}
