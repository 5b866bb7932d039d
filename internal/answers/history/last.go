package history

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Last is the result of a pod's last stored attempt. Nothing changes it, so that any
// goroutine may read it.
type Last struct {
	// Rejection is nil if the attempt was not rejected, or if its text is very long.
	Rejection *plan.Rejection
	// Nominated is the nominated node of that attempt.
	Nominated string
	nodes     int
	text      string
}

// Last returns the last attempt of a waiting pod. ok is false if none is stored. It may
// be called only between two rounds of the loop. Its cost does not depend on the history.
func (h *History) Last(key model.PodKey, uid types.UID) (last Last, ok bool) {
	r := h.waiting.byPod[key]
	if r == nil || r.uid != uid || r.last() == nil {
		return last, false
	}
	a := r.last()
	last = Last{Rejection: a.rejection, nodes: int(a.nodes), text: a.text}
	if a.more != nil {
		last.Nominated = a.more.nominated
		if a.more.failed != "" {
			last.Rejection, last.text = nil, a.more.failed
		}
	}
	return last, true
}

// Message returns the text of the attempt's FailedScheduling event, or of its error.
func (l *Last) Message() string { return messageOf(l.Rejection, l.nodes, l.text) }

// messageOf returns the text of a rejection, followed by the text of PostFilter plugins.
func messageOf(r *plan.Rejection, nodes int, text string) string {
	switch {
	case r == nil:
		return text
	case text == "":
		return r.Text(nodes)
	}
	return r.Text(nodes) + " " + text
}
