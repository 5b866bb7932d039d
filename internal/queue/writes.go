package queue

import "time"

// A decision may give back a claim that other waiting pods use, too. Until the write has
// ended, a PreEnqueue plugin holds these pods, without an attempt. Pods that become ready
// meanwhile are checked by PreEnqueue anyway; pods that are ready already are checked
// when their turn comes.

// holdBack sets aside a pod whose turn it is, or the members of a group, that await a
// write in flight. It reports whether it did.
func (q *Queue) holdBack(now time.Time, e *entry) bool {
	if q.config.State.GivenBack() == 0 {
		return false
	}
	if e.heads == nil {
		plugin := q.holderOf(e)
		if plugin != "" {
			q.gate(e, plugin, givenBack)
		}
		return plugin != ""
	}
	held := false
	for _, member := range e.heads.inTurn() {
		if member.place == joined && q.holderOf(member) != "" {
			q.admit(now, member, active, givenBack)
			held = true
		}
	}
	return held
}

// holderOf returns the PreEnqueue plugin that holds a pod because of a write in flight,
// empty if none does.
func (q *Queue) holderOf(e *entry) (plugin string) {
	v := q.config.State.View()
	if v.AwaitsWrite(e.pod) {
		plugin, _ = q.profiles[e.pod.SchedulerName].RunPreEnqueue(v, e.pod)
	}
	return plugin
}
