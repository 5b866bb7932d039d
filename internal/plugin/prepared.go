package plugin

import "github.com/berth-scheduler/berth/internal/model"

// prepared are the prepared needs of a pod.
type prepared []preparedNeed

// preparedNeed is a need that was compiled with the pod, as far as possible. Of filter,
// count, score and set, the one that the plugin has is set, to the need.
type preparedNeed struct {
	// at is the position in the pod's Needs.
	at     int
	need   Text
	filter FilterNeed
	count  CountNeed
	score  ScoreNeed
	set    SetNeed
}

// IsPrepared marks the type for model.Pod.
func (prepared) IsPrepared() {}

// preparedOf returns the pod's prepared needs. model.Pod cannot name their type, because
// package plugin imports package model.
func preparedOf(pod *model.Pod) prepared {
	if pod.Prepared == nil {
		return nil
	}
	return pod.Prepared.(prepared)
}

// at returns the prepared need at a position of the pod's Needs. It is zero without one.
func (needs prepared) at(position int) preparedNeed {
	for i := range needs {
		if needs[i].at == position {
			return needs[i]
		}
	}
	return preparedNeed{}
}

// Prepared returns the pod's prepared need of a type, with its position in the pod's
// Needs. ok is false if the pod has none.
func Prepared[T Text](pod *model.Pod) (need T, at int, ok bool) {
	needs := preparedOf(pod)
	for i := range needs {
		if need, ok := needs[i].need.(T); ok {
			return need, needs[i].at, true
		}
	}
	return need, 0, false
}
