package engine_test

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// manyTerms are pods with n affinity terms of an author who wants these to concern as
// many other pods as possible. The number i makes the terms of one pod differ from
// others.
var manyTerms = map[string]func(i, n int) *v1.Affinity{
	"excluding labels": func(i, n int) *v1.Affinity {
		return prefers(n, v1.LabelHostname, everywhere, func(k int) []metav1.LabelSelectorRequirement {
			return []metav1.LabelSelectorRequirement{{Key: fmt.Sprintf("k%d-%d", i, k), Operator: metav1.LabelSelectorOpDoesNotExist}}
		})
	},
	"excluding values": func(i, n int) *v1.Affinity {
		return prefers(n, v1.LabelTopologyZone, everywhere, func(k int) []metav1.LabelSelectorRequirement {
			return []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprintf("v%d-%d", i, k)}}}
		})
	},
	"demanding a common label": func(i, n int) *v1.Affinity {
		return prefers(n, v1.LabelHostname, everywhere, func(k int) []metav1.LabelSelectorRequirement {
			return []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpExists}, {Key: fmt.Sprintf("k%d-%d", i, k), Operator: metav1.LabelSelectorOpDoesNotExist},
			}
		})
	},
	"keys that no node has": func(i, n int) *v1.Affinity {
		a := prefers(n, "", everywhere, func(int) []metav1.LabelSelectorRequirement { return nil })
		list := a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		for k := range list {
			list[k].PodAffinityTerm.TopologyKey = fmt.Sprintf("absent%d-%d", i, k)
		}
		return a
	},
	"namespaces by label": func(i, n int) *v1.Affinity {
		a := prefers(n, v1.LabelHostname, everywhere, func(int) []metav1.LabelSelectorRequirement { return nil })
		list := a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		for k := range list {
			list[k].PodAffinityTerm.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: fmt.Sprintf("k%d-%d", i, k), Operator: metav1.LabelSelectorOpDoesNotExist},
			}}
		}
		return a
	},
}

var everywhere = &metav1.LabelSelector{}

// prefers returns preferred affinity of n terms.
func prefers(n int, key string, in *metav1.LabelSelector, selector func(k int) []metav1.LabelSelectorRequirement) *v1.Affinity {
	near := &v1.PodAffinity{}
	for k := range n {
		near.PreferredDuringSchedulingIgnoredDuringExecution = append(near.PreferredDuringSchedulingIgnoredDuringExecution, v1.WeightedPodAffinityTerm{
			Weight: int32(1 + k%100), PodAffinityTerm: v1.PodAffinityTerm{
				TopologyKey: key, NamespaceSelector: in, LabelSelector: &metav1.LabelSelector{MatchExpressions: selector(k)},
			},
		})
	}
	return &v1.Affinity{PodAffinity: near}
}

func (b *bench) hostile(i, n int, terms func(i, n int) *v1.Affinity) *model.Pod {
	return b.pod(100_000+i, func(p *v1.Pod) {
		p.Namespace, p.Labels = "hostile", map[string]string{"h": fmt.Sprint(i)}
		p.Spec.Affinity = terms(i, n)
	})
}

// runHostile puts pods with n terms each on nodes.
func (b *bench) runHostile(t testing.TB, pods, n int, terms func(i, n int) *v1.Affinity) {
	for i := range pods {
		p := b.hostile(i, n, terms).Object
		p.Spec.NodeName = fmt.Sprintf("node-%05d", i*7)
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
}

func (b *bench) innocent(i int) *model.Pod {
	return b.pod(i, func(p *v1.Pod) { p.Labels = map[string]string{"app": fmt.Sprint("web-", i%10), "tier": "front"} })
}

// TestManyTermsOfOthersCostLittle counts visited terms of ten pods with 1,000 terms each.
// It covers the first decision about pods of an app, and the next ones after another such
// pod.
func TestManyTermsOfOthersCostLittle(t *testing.T) {
	build.NotRaced(t)
	const pods, terms = 10, 1000
	for name, of := range manyTerms {
		b := newBench(t, 300)
		b.runHostile(t, pods, terms, of)
		for i := range 20 {
			before := b.state.TermsAsked()
			b.place(t, b.innocent(i))
			most := int64(2 * pods)
			if name == "demanding a common label" || name == "namespaces by label" {
				// each app has a new pod, and another pod with many terms has come
				if most = 11 * terms; i < 10 {
					most = 2 * (pods + 20) * terms // the first pod of its app
				}
			}
			if asked := b.state.TermsAsked() - before; asked > most {
				t.Errorf("%s, pod %d: %d terms are asked whether they select it, want %d at most", name, i, asked, most)
			}
			p := b.hostile(pods+i, terms, of).Object
			p.Spec.NodeName = "node-00001"
			b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
		}
		if err := b.state.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestManyTermsTakeLittleMemory measures the state's memory for pods with many terms.
func TestManyTermsTakeLittleMemory(t *testing.T) {
	build.NotRaced(t)
	const pods, terms = 10, 5000
	for name, of := range manyTerms {
		b := newBench(t, 300)
		before := int64(heapBytes())
		b.runHostile(t, pods, terms, of)
		for i := range 20 {
			b.place(t, b.innocent(i))
		}
		if grown := int64(heapBytes()) - before; grown > 64<<20 {
			t.Errorf("%s: the heap has grown by %d MiB", name, grown>>20)
		}
		if have := b.state.TermListBytes(); have > 48<<20 || have < pods*terms*40 {
			t.Errorf("%s: lists of terms take %d bytes", name, have)
		}
		if topologies := b.state.Sizes().Topologies; topologies > 8 {
			t.Errorf("%s: %d topologies are kept", name, topologies)
		}
		runtime.KeepAlive(b)
	}
}

// TestCompiledNeedsAreBoundedInBytes decides about 180 pods with 2,500 terms each, all
// different.
func TestCompiledNeedsAreBoundedInBytes(t *testing.T) {
	build.NotRaced(t)
	b := newBench(t, 20)
	for i := range 180 {
		b.engine.Decide(b.state.View(), plan.Alone(b.hostile(i, 2500, manyTerms["excluding labels"])))
	}
	if have := b.engine.Compiled(); have > 400 || have < 50 {
		t.Errorf("%d compiled needs are kept, of 540", have)
	}
	if err := b.engine.Audit(); err != nil {
		t.Error(err)
	}
}

// BenchmarkBesideManyTerms decides about other pods beside 30 running pods with 2,000
// terms each, at 5,000 nodes. The pods belong to known apps, to new ones, or follow
// another such pod.
func BenchmarkBesideManyTerms(b *testing.B) {
	names := []string{"none"}
	for name := range manyTerms {
		names = append(names, name)
	}
	for _, name := range names {
		for _, of := range []string{"seen", "new", "changed"} {
			b.Run(name+"/"+of, func(b *testing.B) {
				c := newBench(b, 5000)
				if name != "none" {
					c.runHostile(b, 30, 2000, manyTerms[name])
				}
				for i := range 10 {
					c.place(b, c.innocent(i))
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					pod := c.innocent(i)
					b.StopTimer()
					if of == "new" {
						pod = c.pod(i, func(p *v1.Pod) { p.Labels = map[string]string{"app": fmt.Sprint("new-", i)} })
					} else if of == "changed" && name != "none" {
						c.runHostile(b, 1, 2000, manyTerms[name])
						p := c.hostile(1000+i, 2000, manyTerms[name]).Object
						p.Spec.NodeName = "node-00001"
						c.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
					}
					work := plan.Alone(pod)
					b.StartTimer()
					c.engine.Decide(c.state.View(), work)
					if of == "changed" && name != "none" {
						b.StopTimer()
						c.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: "hostile", Name: fmt.Sprintf("pod-%d", 101_000+i)}}})
						b.StartTimer()
					}
				}
			})
		}
	}
}
