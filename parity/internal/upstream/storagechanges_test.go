package upstream_test

import (
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// TestUsedOnMissingNode checks that a pod whose node is missing uses no claim, whether it
// came before or after the first snapshot.
func TestUsedOnMissingNode(t *testing.T) {
	w := newWorld(t)
	user := with("default", "user", "gone", uses("c"))
	w.add(volumeOf("pv", "", "1Gi"), claimOf("c", "", "1Gi", boundTo("pv"), oncePod))
	p := with("default", "p", "", uses("c"))
	w.expect(p, "n1 passes, n2 passes")
	w.add(user)
	w.expect(p, "n1 passes, n2 passes")
	w.node("gone")
	everywhere := " U VolumeRestrictions: " + inUse
	w.expect(p, "gone"+everywhere+", n1"+everywhere+", n2"+everywhere)
	do(t, w.RemoveNode("gone"))
	w.expect(p, "n1 passes, n2 passes")
	do(t, w.RemovePod("default", "user"))
	w.expect(p, "n1 passes, n2 passes")
}

// TestFollowsStorage checks that the verdicts of a scheduler that has seen another
// cluster before equal those of a new one.
func TestFollowsStorage(t *testing.T) {
	for _, shape := range cases.VolumeShapes() {
		if shape.Name == "vol-crowd" {
			continue
		}
		for seed := range uint64(6) {
			now, before := shape.Draw(seed), shape.Draw(seed+100)
			follower, fresh := newUpstream(t, now.Config), newUpstream(t, now.Config)
			show(t, follower, before.Cluster)
			for _, p := range before.Pods {
				if p.Spec.NodeName == "" && p.Spec.SchedulerName == v1.DefaultSchedulerName {
					judged(t, follower, p)
				}
				do(t, follower.RemovePod(p.Namespace, p.Name))
			}
			for at, o := range before.Others() {
				if at%2 == 0 { // the others are replaced by objects of the same name, if any
					do(t, follower.RemoveObject(o))
				}
			}
			for _, n := range before.Nodes {
				do(t, follower.RemoveNode(n.Name))
			}
			show(t, follower, now.Cluster)
			kept := map[string]bool{}
			for _, o := range now.Others() {
				kept[fmt.Sprintf("%T %s", o, keyOf(t, o))] = true
			}
			for _, o := range before.Others() {
				if !kept[fmt.Sprintf("%T %s", o, keyOf(t, o))] {
					do(t, follower.RemoveObject(o))
				}
			}
			show(t, fresh, now.Cluster)
			for _, p := range now.Pods {
				if p.Spec.NodeName != "" || p.Spec.SchedulerName != v1.DefaultSchedulerName {
					continue
				}
				if got, want := judged(t, follower, p), judged(t, fresh, p); !reflect.DeepEqual(texts(got), texts(want)) {
					t.Fatalf("%s, seed %d:\n%v\nwant\n%v", shape.Name, seed, texts(got), texts(want))
				}
			}
		}
	}
}

func keyOf(t *testing.T, o runtime.Object) string {
	t.Helper()
	key, err := cache.MetaNamespaceKeyFunc(o)
	do(t, err)
	return key
}
