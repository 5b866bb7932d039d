package metrics_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A wait for binding conditions is counted by its result: the duration for each device of
// the pod, and the awaited devices. Other waits are not counted.
func TestDeviceWaits(t *testing.T) {
	m, registry := build(t, time.Now)
	wait := &plan.Wait{Devices: []plan.Device{{Driver: "a", Awaited: true}, {Driver: "a", Awaited: true}, {Driver: "b"}}}
	broken := func(err error) error {
		return &plan.PluginError{Point: "PreBind", Plugin: dynamicresources.Name, Err: err}
	}
	for i, end := range []commit.WaitEnd{
		{Wait: wait}, {Wait: &plan.Wait{}},
		{Wait: wait, Err: broken(fmt.Errorf("%w: context deadline exceeded", dynamicresources.ErrBindingTimeout))},
		{Wait: wait, Err: broken(fmt.Errorf("%w: claim=c", dynamicresources.ErrBindingFailed))},
		{Wait: wait, Err: broken(errors.New("the pod is gone"))},
	} {
		end.Took = time.Duration(i+1) * time.Second
		m.Commit.Passed(&commit.StageEnd{Pod: &model.Pod{SchedulerName: "gpus"}, Stage: plan.PreBind, Err: end.Err, Waits: []commit.WaitEnd{end}})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	waited := 0.0
	for _, f := range families {
		for _, one := range f.GetMetric() {
			switch labels := labelsOf(one); {
			case f.GetName() == "scheduler_dra_bindingconditions_allocations_total" && labels != "" && one.GetLabel()[0].GetValue() != "a":
				t.Errorf("%s counts, and nobody has waited for the device", labels)
			case f.GetName() == "scheduler_dra_bindingconditions_wait_duration_seconds":
				waited += one.GetHistogram().GetSampleSum()
			}
		}
	}
	if want := 3.0 * (1 + 3 + 4 + 5); waited != want {
		t.Errorf("waits took %v s in all, want %v s", waited, want)
	}
	scrape(t, registry).expect(t, `
		scheduler_dra_bindingconditions_allocations_total{driver=a,profile=gpus,status=success} 2
		scheduler_dra_bindingconditions_allocations_total{driver=a,profile=gpus,status=timeout} 2
		scheduler_dra_bindingconditions_allocations_total{driver=a,profile=gpus,status=failure} 2
		scheduler_dra_bindingconditions_allocations_total{driver=a,profile=gpus,status=error} 2
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=a,profile=gpus,status=success} 2
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=b,profile=gpus,status=success} 1
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=a,profile=gpus,status=timeout} 2
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=b,profile=gpus,status=timeout} 1
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=a,profile=gpus,status=failure} 2
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=b,profile=gpus,status=failure} 1
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=a,profile=gpus,status=error} 2
		scheduler_dra_bindingconditions_wait_duration_seconds{driver=b,profile=gpus,status=error} 1
	`)
}

// Claims for extended resources are counted by whether the API server accepted them.
func TestClaimsCreated(t *testing.T) {
	m, registry := build(t, time.Now)
	made := &commit.Write{Kind: commit.StepWrite, Pod: &model.Pod{}, Step: &plan.Write{Type: types.ApplyYAMLPatchType, Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims")}}
	patched := &commit.Write{Kind: commit.StepWrite, Pod: &model.Pod{}, Step: &plan.Write{Type: types.JSONPatchType, Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims")}}
	for _, sent := range []struct {
		write *commit.Write
		err   error
	}{{made, nil}, {made, errors.New("no")}, {patched, nil}, {&commit.Write{Kind: commit.StepWrite, Pod: &model.Pod{}}, nil}, {made, nil}} {
		m.Commit.Sent(m.Commit.Sending(t.Context(), sent.write), sent.write, time.Second, sent.err)
	}
	scrape(t, registry).expect(t, `
		dynamic_resource_allocation_resourceclaim_creates_total{admin_access=false,owner_api_group=,owner_api_kind=Pod,status=success} 2
		dynamic_resource_allocation_resourceclaim_creates_total{admin_access=false,owner_api_group=,owner_api_kind=Pod,status=failure} 1
	`)
}
