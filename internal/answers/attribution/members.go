package attribution

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// BetweenForGroup returns the differences between two snapshots, for a pod group. Members
// are pods that are neither finished nor being deleted.
//
// Members of the two snapshots are matched by name first. The remaining ones are matched
// in the order of their names, because a Job or StatefulSet may have replaced them.
// Members without a match are new or gone. If one snapshot has no members, the other's
// members are judged in both.
func BetweenForGroup(then, now Objects, group model.GroupKey) *Differences {
	d := &Differences{name: group.String(), group: &group}
	c := newComparer(then, now)
	before, after := d.membersOf(then.Pods), d.membersOf(now.Pods)
	d.onlyThen, d.onlyNow = len(after) == 0, len(before) == 0
	switch {
	case d.onlyThen:
		after = before
	case d.onlyNow:
		before = after
	}
	d.pair(before, after)
	d.addOwn(c)
	d.addPresence()
	d.addObjects(c, then, now)
	return d
}

// membersOf returns the members among pods, sorted by name. It hides all pods of the
// group from the state.
func (d *Differences) membersOf(pods []*v1.Pod) (members []*v1.Pod) {
	for _, p := range pods {
		of := p.Spec.SchedulingGroup
		if p.Namespace != d.group.Namespace || of == nil || of.PodGroupName == nil || *of.PodGroupName != d.group.Name {
			continue
		}
		if key := (model.PodKey{Namespace: p.Namespace, Name: p.Name}); !slices.Contains(d.hidden, key) {
			d.hidden = append(d.hidden, key)
		}
		if !kinds.Finished(p) && p.DeletionTimestamp == nil {
			members = append(members, p)
		}
	}
	slices.SortFunc(members, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// pair matches the members of both snapshots.
func (d *Differences) pair(before, after []*v1.Pod) {
	byName := map[string]*v1.Pod{}
	for _, p := range before {
		byName[p.Name] = p
	}
	var created []*v1.Pod
	for _, p := range after {
		if was := byName[p.Name]; was != nil {
			d.asked = append(d.asked, subject{then: was, now: p, presence: -1})
			delete(byName, p.Name)
			continue
		}
		created = append(created, p)
	}
	for _, p := range before {
		switch {
		case byName[p.Name] == nil:
		case len(created) > 0:
			d.asked = append(d.asked, subject{then: p, now: created[0], presence: -1})
			created = created[1:]
		default:
			d.asked = append(d.asked, subject{then: p, presence: -1})
		}
	}
	for _, p := range created {
		d.asked = append(d.asked, subject{now: p, presence: -1})
	}
}

// addPresence adds a unit for each member that is new or gone.
func (d *Differences) addPresence() {
	for i := range d.asked {
		x := &d.asked[i]
		change := Change{Kind: MemberNew, Text: " is new"}
		of := x.now
		switch {
		case x.then != nil && x.now != nil:
			continue
		case x.now == nil:
			change, of = Change{Kind: MemberGone, Text: " is gone"}, x.then
		}
		change.Object = "pod " + of.Namespace + "/" + of.Name
		change.Text = "member " + of.Namespace + "/" + of.Name + change.Text
		x.presence = len(d.units)
		d.units = append(d.units, unit{Change: change, object: -1})
	}
}
