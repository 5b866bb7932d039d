package app

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/answers/queued"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// listsQueue returns the handler of questions about waiting pods.
func (s *scheduler) listsQueue() *server.Queue {
	c := queued.Config{
		Ask: s.loop.Ask, Queue: s.loop.Queue(), Profiles: s.config.SchedulerNames(), Now: s.observers.clock.Now,
		Wall: time.Now,
		Pods: func() []*v1.Pod {
			pods, _ := s.watch.Known()
			return pods
		},
	}
	if s.history != nil {
		c.History = s.history
	}
	lister := queued.New(c)
	answer := func(ctx context.Context, q server.QueueQuestion) (any, error) {
		if err := s.leads(); err != nil {
			return nil, err
		}
		about := queued.Question{Namespace: q.Namespace, Selector: q.LabelSelector, Pods: q.Pods}
		answer, err := lister.Answer(ctx, about)
		if wrong := (*queued.SelectorError)(nil); errors.As(err, &wrong) {
			return nil, apierrors.NewBadRequest(wrong.Error())
		}
		return answer, err
	}
	return &server.Queue{Answer: answer, Answered: s.observers.metrics.Explain.Answered}
}

// leads returns an error if the replica does not lead.
func (s *scheduler) leads() error {
	select {
	case <-s.leadership.leading:
		return nil
	default:
		return apierrors.NewServiceUnavailable("this replica does not lead; send the request to the holder of the lease")
	}
}
