package storage

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
)

// volume is a PersistentVolume that exists or that other objects name.
type volume struct {
	*model.Volume // nil if it does not exist
	name          string
	// Invariant: claims are the claims in use that name the volume; attachments are its
	// complete attachments. Each records its position.
	claims      []*claim
	attachments []*attachment
	// Invariant: holders are the pods that hold its current version.
	holders []model.PodKey
	// Invariant: group lists the volume, if it is free; otherwise it is nil.
	group *Group
}

func (s *Store) volumeOf(name string) *volume {
	v := s.volumes[name]
	if v == nil {
		v = &volume{name: name}
		s.volumes[name] = v
	}
	return v
}

func (s *Store) forgetVolume(v *volume) {
	if v.Volume == nil && len(v.claims) == 0 && len(v.attachments) == 0 {
		delete(s.volumes, v.name)
	}
}

func (s *Store) setVolume(name string, now *model.Volume) (before *model.Volume) {
	v := s.volumes[name]
	if v == nil {
		if now == nil {
			return nil
		}
		v = s.volumeOf(name)
	}
	before = v.Volume
	s.listPreBound(v, now)
	if g := v.group; g != nil && isFree(now) && now.Capacity == v.Capacity && groupText(now) == g.Text && maps.Equal(now.Object.Labels, v.Object.Labels) {
		v.Volume = now // the supply of every node is unchanged
	} else {
		s.leaveGroup(v)
		v.Volume = now
		if before == nil || now == nil || before.Version() != now.Version() {
			// A newer version shows the result of the hold, or another writer's change.
			v.holders = nil
		}
		s.enterGroup(v)
	}
	if !isSameVolume(before, now) {
		for _, c := range v.claims {
			s.identify(c)
		}
		for _, a := range v.attachments {
			s.identifyAttachment(a)
		}
	}
	s.forgetVolume(v)
	return before
}

// isSameVolume reports whether two versions of a volume count alike on nodes. A missing
// volume is nil.
func isSameVolume(a, b *model.Volume) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Driver == b.Driver && a.Handle == b.Handle && a.InTree == b.InTree && (a.Object.Spec.CSI == nil) == (b.Object.Spec.CSI == nil)
}

func byName(v *volume, name string) int { return strings.Compare(v.name, name) }

// listPreBound moves a volume, which is about to get another version, to the list of the
// claim that the version names.
func (s *Store) listPreBound(v *volume, now *model.Volume) {
	var from, to model.ClaimKey
	var was, is bool
	if v.Volume != nil {
		from, was = v.ClaimKey()
	}
	if now != nil {
		to, is = now.ClaimKey()
	}
	if was == is && from == to {
		return
	}
	if was {
		list := s.preBound[from]
		at, _ := slices.BinarySearchFunc(list, v.name, byName)
		if list = shorter(slices.Delete(list, at, at+1)); len(list) == 0 {
			delete(s.preBound, from)
		} else {
			s.preBound[from] = list
		}
	}
	if is {
		list := s.preBound[to]
		at, _ := slices.BinarySearchFunc(list, v.name, byName)
		s.preBound[to] = slices.Insert(list, at, v)
	}
}

// Hold records that the placement of a pod holds the current version of a volume. The
// volume is not free until the pod releases it, or until it has another version. Objects
// of other kinds are ignored.
func (s *Store) Hold(ref model.Ref, pod model.PodKey) {
	if ref.Kind != model.PersistentVolumeKind {
		return
	}
	if v := s.volumes[ref.Name]; v != nil && v.Volume != nil && !slices.Contains(v.holders, pod) {
		v.holders = append(v.holders, pod)
		s.leaveGroup(v)
	}
}

// Release undoes Hold.
func (s *Store) Release(ref model.Ref, pod model.PodKey) {
	if ref.Kind != model.PersistentVolumeKind {
		return
	}
	v := s.volumes[ref.Name]
	if v == nil {
		return
	}
	at := slices.Index(v.holders, pod)
	if at < 0 {
		return // the pod held another version
	}
	if v.holders = slices.Delete(v.holders, at, at+1); len(v.holders) == 0 {
		v.holders = nil
		s.enterGroup(v)
	}
}
