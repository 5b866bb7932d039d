package app

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// committed accepts decisions and ignores them.
type committed struct{}

func (committed) Start(plan.Decision)             {}
func (committed) Allow(types.UID, string)         {}
func (committed) Reject(types.UID, string, error) {}
func (committed) Cancel(types.UID, error) bool    { return false }
func (committed) Room() <-chan struct{}           { return nil }

// TestLogged checks that decisions are logged at kube-scheduler's levels: an empty
// cluster is no error.
func TestLogged(t *testing.T) {
	pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
	for _, row := range []struct {
		decision  plan.Decision
		verbosity int
		kind      ktesting.LogType
		want      string
	}{
		{plan.Decision{Outcome: plan.NoNodes}, 2, ktesting.LogInfo, "Unable to schedule pod; no nodes are registered to the cluster; waiting"},
		{plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{}}, 2, ktesting.LogInfo, "Unable to schedule pod; no fit; waiting"},
		{plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Group: "too few"}}, 2, ktesting.LogInfo, "Unable to schedule pod belonging to a pod group; waiting"},
		{plan.Decision{Outcome: plan.Terminating}, 3, ktesting.LogInfo, "Skip schedule deleting pod"},
		{plan.Decision{Outcome: plan.Failed, Err: errors.New("no")}, 0, ktesting.LogError, "Error scheduling pod; retrying"},
	} {
		log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(3)))
		row.decision.Member = plan.Alone(pod)
		logged{committed{}, log}.Start(row.decision)
		said := log.GetSink().(ktesting.Underlier).GetBuffer().Data()
		if !slices.ContainsFunc(said, func(e ktesting.LogEntry) bool {
			return e.Message == row.want && e.Type == row.kind && e.Verbosity == row.verbosity && len(e.ParameterKVList) >= 2 && e.ParameterKVList[0] == "pod" && e.ParameterKVList[1] == pod
		}) {
			t.Errorf("%s: logged %+v", row.decision.Outcome, said)
		}
	}
}
