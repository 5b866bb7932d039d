package devices

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestGiveBack counts the writes that release a claim, until all have ended or the claim
// is gone.
func TestGiveBack(t *testing.T) {
	version := func(uid types.UID) *model.ResourceClaim {
		return model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: uid}})
	}
	first, second := version("1"), version("2")
	s := New(func(int32, model.Aspect) {})
	expect := func(when string, want int) {
		t.Helper()
		v := audit.Of("devices")
		s.Audit(v, nil, func(model.Ref, model.PodKey, plan.Held) bool { return false })
		if err := v.Err(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if s.GivenBack() != want || s.IsGivenBack(first.Key) != (want > 0) {
			t.Errorf("%s: %d claims are given back, this one: %t; want %d", when, s.GivenBack(), s.IsGivenBack(first.Key), want)
		}
	}
	end := func(of *model.ResourceClaim, decisions int, deleted bool) bool {
		return s.EndGiveBack(&model.WriteResult{Object: of, Decisions: decisions, Deleted: deleted})
	}
	s.GiveBack(first)
	expect("a claim that does not exist", 0)
	s.Set(first)
	s.GiveBack(second)
	expect("another claim of the name", 0)
	s.GiveBack(first)
	s.GiveBack(first)
	expect("two writes", 1)
	if end(second, 1, false) || end(first, 1, false) {
		t.Error("the writes are over before the second has ended")
	}
	expect("one has ended", 1)
	if !end(first, 1, false) || end(first, 1, false) {
		t.Error("the writes are not over, or over twice")
	}
	expect("both have ended", 0)
	s.GiveBack(first)
	if end(first, 1, true) {
		t.Error("a claim that was deleted can be used before it is gone")
	}
	expect("deleted, and shown", 1)
	s.Remove(first.Ref())
	expect("gone", 0)
	s.Set(first)
	s.GiveBack(first)
	s.Set(second)
	expect("replaced", 0)
}
