package commit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/defaultbinder"
)

const (
	// jitter spreads the tries of writes that failed together.
	jitter = 0.1
	// askPause is the wait between two questions for a pod's node; it doubles up to askPauseMax.
	askPause    = 50 * time.Millisecond
	askPauseMax = 2 * time.Second
)

// unknownError is the failure of a binding that may have been stored all the same.
type unknownError struct{ error }

func (e unknownError) Unwrap() error { return e.error }

// bind writes a binding and tells how it ended: first the loop, then the pod's owner.
func (c *Commit) bind(ctx context.Context, b *binding) {
	err := c.tryBind(ctx, b)
	c.answer(b, err)
	pod := b.decision.Pod
	switch {
	case err == nil:
		c.config.Log.V(2).Info("Successfully bound pod to node", "pod", pod, "node", b.decision.NodeName,
			"evaluatedNodes", b.decision.Nodes, "feasibleNodes", b.decision.Feasible)
		c.tell(pod, explain.Report{Event: b.report.Event})
	case ctx.Err() == nil:
		err = inBindersWords(err)
		c.config.Log.Error(err, "Could not bind pod", "pod", pod, "node", b.decision.NodeName)
		report := explain.OfFailedBinding(b.decision, err)
		if unknown := (unknownError{}); errors.As(err, &unknown) {
			// A condition that says the pod waits must not be written into one that is bound.
			report.Condition, report.ClearNomination = nil, false
		}
		c.tell(pod, report)
	}
}

// answer tells the loop how a binding ended.
func (c *Commit) answer(b *binding, err error) {
	outcome := model.Outcome{Pod: b.decision.Pod, NodeName: b.decision.NodeName}
	if err != nil {
		outcome.Err = inBindersWords(err)
	}
	c.mu.Lock()
	if err != nil {
		c.stats.BindingsFailed++
	} else {
		c.stats.Bound++
	}
	c.mu.Unlock()
	c.config.Outcomes.Bound(outcome)
}

func inBindersWords(err error) error {
	return fmt.Errorf("running Bind plugin %q: %w", defaultbinder.Name, err)
}

// tryBind binds. Where the answer leaves open whether the API server stored the binding, it asks.
func (c *Commit) tryBind(ctx context.Context, b *binding) error {
	open := false
	err := c.again(ctx, nil, func(ctx context.Context) error {
		err := c.config.Writer.Bind(ctx, b.decision.Pod, b.decision.NodeName)
		open = open || leavesOpen(err)
		return err
	})
	if err == nil || !open {
		return err
	}
	nodeName, asked := c.ask(ctx, b.decision.Pod)
	switch {
	case asked != nil && !apierrors.IsNotFound(asked):
		return unknownError{fmt.Errorf("%w (whether the pod is bound all the same is not known: %w)", err, asked)}
	case nodeName == b.decision.NodeName:
		return nil
	}
	return err
}

// ask asks which node a pod is bound to, again and again until an answer comes or the time for a write is over: a server that has
// just come back refuses what it will allow a moment later.
func (c *Commit) ask(ctx context.Context, pod *model.Pod) (nodeName string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	for pause := askPause; ; pause = min(2*pause, askPauseMax) {
		nodeName, err = c.config.Writer.NodeOf(ctx, pod)
		if err == nil || apierrors.IsNotFound(err) || !sleep(ctx, wait.Jitter(pause, jitter)) {
			return nodeName, err
		}
	}
}

// leavesOpen reports whether a write that failed like this may have been carried out all the same.
func leavesOpen(err error) bool {
	if err == nil || net.IsConnectionRefused(err) {
		return false
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == 0
	}
	return true // no answer came
}

// again writes, several times if the failure may pass. A timeout holds for each time.
func (c *Commit) again(ctx context.Context, passes func(error) error, write func(context.Context) error) error {
	for try := 1; ; try++ {
		err := once(ctx, c.config.Timeout, write)
		if err == nil {
			return nil
		}
		judged := err
		if passes != nil {
			judged = passes(err)
		}
		pause, more := defaultbinder.Retry(judged, try)
		if !more || !sleep(ctx, wait.Jitter(pause, jitter)) {
			return err
		}
	}
}

func once(ctx context.Context, timeout time.Duration, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return write(ctx)
}

// repeatable has more failures treated like those of a server that is unwell: conflicts, since a status is written over whatever is
// there, and lost answers, since writing it twice does no harm.
func repeatable(err error) error {
	if apierrors.IsConflict(err) || unanswered(err) {
		return apierrors.NewInternalError(err)
	}
	return err
}

// unanswered reports whether the API server did not answer at all.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer)
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
