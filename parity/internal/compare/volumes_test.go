package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// seedsOf returns enough seeds for every message of kube-scheduler about volumes. A crowd
// takes as long as many others.
func seedsOf(s cases.Shape) uint64 {
	if s.Name == "vol-crowd" {
		return 3
	}
	return 60
}

// reasonsOfVolumes are all rejections of kube-scheduler's plugins about volumes: plugin,
// status code and text, with NAME for each name.
func reasonsOfVolumes() []string {
	return []string{
		"VolumeRestrictions U node(s) had no available disk",
		"VolumeRestrictions U node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
		`VolumeRestrictions UU persistentvolumeclaim "NAME" not found`,
		"NodeVolumeLimits U node(s) exceed max volume count",
		"NodeVolumeLimits U strict.csi.example.com CSI driver is not installed on the node",
		`NodeVolumeLimits UU looking up PVC NAME: persistentvolumeclaim "NAME" not found`,
		`VolumeBinding UU persistentvolumeclaim "NAME" not found`,
		`VolumeBinding UU waiting for ephemeral volume controller to create the persistentvolumeclaim "NAME"`,
		`VolumeBinding UU persistentvolumeclaim "NAME" bound to non-existent persistentvolume "NAME"`,
		`VolumeBinding UU persistentvolumeclaim "NAME" is being deleted`,
		"VolumeBinding UU PVC NAME was not created for pod NAME (pod is not owner)",
		"VolumeBinding UU pod has unbound immediate PersistentVolumeClaims",
		"VolumeBinding UU node(s) didn't match PersistentVolume's node affinity",
		"VolumeBinding UU node(s) didn't find available persistent volumes to bind",
		"VolumeBinding UU node(s) did not have enough free storage",
		"VolumeBinding UU node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
		"VolumeBinding UU node(s) didn't match PersistentVolume's node affinity; node(s) didn't find available persistent volumes to bind",
		"VolumeBinding UU node(s) didn't match PersistentVolume's node affinity; node(s) did not have enough free storage",
		"VolumeZone UU node(s) had no available volume zone",
		`VolumeZone UU persistentvolumeclaim "NAME" not found`,
		`VolumeZone UU persistentvolume "NAME" not found`,
		`VolumeZone UU storageclass.storage.k8s.io "NAME" not found`,
		"VolumeZone UU PersistentVolumeClaim had no pv name and storageClass name",
		`VolumeZone UU VolumeBindingMode not set for StorageClass "NAME"`,
		"VolumeZone UU PersistentVolume had no name",
		`error running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass "NAME"`,
		`error running "NodeVolumeLimits" filter plugin: PVC NAME was not created for pod NAME (pod is not owner)`,
		`error running "NodeVolumeLimits" filter plugin: converting volume(NAME) from inline to csi: `,
		`error running "VolumeBinding" filter plugin: could not translate pv: `,
		`error running "VolumeBinding" filter plugin: error creating internal label selector for claim: `,
	}
}

// seen has kube-scheduler's verdicts in one shape.
type seen struct {
	pods, errors, feasible, rejected, scored int
	reasons                                  map[string]int
	scores                                   map[int64]bool
}

// TestVolumeShapesCoverReasons checks that the shapes cover every message of
// kube-scheduler about volumes, and that no shape is empty.
func TestVolumeShapesCoverReasons(t *testing.T) {
	all := map[string]int{}
	for _, shape := range cases.VolumeShapes() {
		s := seen{reasons: map[string]int{}, scores: map[int64]bool{}}
		for seed := range seedsOf(shape) {
			s.judge(t, shape.Draw(seed+1))
		}
		t.Logf("%-14s %5d pods, %4d errors, %6d nodes feasible, %6d rejected, %6d scored with %d values", shape.Name, s.pods, s.errors, s.feasible, s.rejected, s.scored, len(s.scores))
		for _, text := range slices.Sorted(maps.Keys(s.reasons)) {
			t.Logf("  %6d %s", s.reasons[text], text)
			all[text] += s.reasons[text]
		}
		if s.feasible == 0 || s.rejected == 0 || s.scored == 0 || len(s.reasons) == 0 {
			t.Errorf("%s: %+v; it must have some of everything", shape.Name, s)
		}
	}
	for _, want := range reasonsOfVolumes() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(text string) bool {
			return text == want || strings.HasSuffix(want, ": ") && strings.HasPrefix(text, want)
		}) {
			t.Errorf("never said: %s", want)
		}
	}
}

func (s *seen) judge(t *testing.T, tc cases.Case) {
	t.Helper()
	theirs, err := InProcess().load(tc.Clone())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for _, p := range tc.Pods {
		if p.Spec.NodeName != "" {
			continue
		}
		v, err := theirs.Explain(p)
		if err != nil {
			t.Fatal(err)
		}
		s.add(v)
	}
}

var (
	names      = regexp.MustCompile(`"[^"]+" (not found|bound|is being)|persistentvolume "[^"]+"|StorageClass "[^"]+"|the persistentvolumeclaim "[^"]+"`)
	namesAfter = regexp.MustCompile(`(PVC|pod|claim:) [a-z]+/[a-z0-9-]+|volume\([^)]+\)`)
	quotedName = regexp.MustCompile(`"[^"]+"`)
)

// nameless replaces the names of objects in a text.
func nameless(text string) string {
	text = names.ReplaceAllStringFunc(text, func(found string) string { return quotedName.ReplaceAllString(found, `"NAME"`) })
	return namesAfter.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "volume(") {
			return "volume(NAME)"
		}
		word, _, _ := strings.Cut(found, " ")
		return word + " NAME"
	})
}

func (s *seen) add(v *upstream.Verdict) {
	s.pods++
	if v.Err != nil {
		s.errors++
		s.reasons[nameless("error "+v.Err.Error())]++
		return
	}
	for _, n := range v.Nodes {
		if n.Feasible {
			s.feasible++
		} else {
			s.rejected++
			s.reject(n.First)
		}
		if len(n.Scores) > 0 {
			s.scored++
		}
		for _, score := range n.Scores {
			if score.Plugin == "VolumeBinding" {
				s.scores[score.Normalised] = true
			}
		}
		for i := range n.All {
			s.reject(&n.All[i])
		}
	}
}

func (s *seen) reject(r *upstream.Rejection) {
	if !slices.Contains([]string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}, r.Plugin) {
		return
	}
	code := map[string]string{"Unschedulable": "U", "UnschedulableAndUnresolvable": "UU"}[r.Code]
	s.reasons[nameless(fmt.Sprintf("%s %s %s", r.Plugin, code, strings.Join(r.Reasons, "; ")))]++
}

// TestVolumeShapesAreDetermined checks that verdicts do not depend on the order of
// objects. kube-scheduler reads volumes and capacities in the order of a hash table.
func TestVolumeShapesAreDetermined(t *testing.T) {
	for _, shape := range cases.VolumeShapes() {
		for seed := range (seedsOf(shape) + 3) / 4 {
			tc := shape.Draw(seed + 1)
			backwards := tc.Clone()
			slices.Reverse(backwards.PersistentVolumes)
			slices.Reverse(backwards.CSIStorageCapacities)
			first, second := verdicts(t, tc, true), verdicts(t, backwards, true)
			for i := range first {
				if first[i] != second[i] {
					t.Fatalf("%s, seed %d, pod %d:\n%s", shape.Name, seed+1, i, differing(first[i], second[i]))
				}
			}
		}
	}
}

// TestTrimmedStorage checks that kube-scheduler's verdicts are the same for objects
// trimmed by Berth.
func TestTrimmedStorage(t *testing.T) {
	trim := kinds.Trim()
	for _, shape := range cases.VolumeShapes() {
		for seed := range (seedsOf(shape) + 5) / 6 {
			tc := shape.Draw(seed + 1)
			trimmed := tc.Clone()
			for _, o := range trimmed.Objects() {
				if _, err := trim(o); err != nil {
					t.Fatal(err)
				}
			}
			whole, kept := verdicts(t, tc, false), verdicts(t, trimmed, false)
			for i := range whole {
				if whole[i] != kept[i] {
					t.Fatalf("%s, seed %d, pod %d:\n%s", shape.Name, seed+1, i, differing(whole[i], kept[i]))
				}
			}
		}
	}
}

// differing returns the lines in only one of two texts.
func differing(a, b string) string {
	var lines []string
	first, second := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, line := range first {
		if !slices.Contains(second, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range second {
		if !slices.Contains(first, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// verdicts returns the verdicts on the pending pods as text. Each pod is placed, so that
// the next one sees its reservations. Pods that repeat a claim are not placed: two
// volumes could be reserved, and the next pod with the claim could get either.
func verdicts(t *testing.T, tc cases.Case, written bool) []string {
	t.Helper()
	theirs, err := InProcess().load(tc.Clone())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	var all []string
	for _, p := range tc.Pods {
		if p.Spec.NodeName != "" {
			continue
		}
		v, err := theirs.Explain(p)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintln(v.Err, v.MessageBefore, v.Plugins, v.Best, roomMade(v))
		for _, n := range v.Nodes {
			text += fmt.Sprintln(n.Name, theirFirst(n.First), theirAll(n.All), n.Scores, n.Total)
		}
		if len(v.Best) > 0 && !repeats(p) {
			if err := theirs.Assume(p, v.Best[0]); err != nil {
				t.Fatal(err)
			}
			objects, err := theirs.Reserve(p, v.Best[0])
			text += fmt.Sprintln(err)
			for _, o := range objects {
				if !written {
					break
				}
				data, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				text += string(data) + "\n"
			}
		}
		all = append(all, text)
	}
	return all
}

// roomMade returns the result of PostFilter plugins as text. kube-scheduler takes any of
// equally good nodes, so the text has only the best nodes with their victims.
func roomMade(v *upstream.Verdict) string {
	p := v.Preemption
	if p == nil || p.Mode != upstream.Set {
		return v.Message
	}
	var victims []string
	for i := range p.Candidates {
		victims = append(victims, p.Candidates[i].NodeName, fmt.Sprint(p.Candidates[i].VictimNames()))
	}
	return fmt.Sprint(p.Mode, p.Best(), victims)
}

func repeats(p *v1.Pod) bool {
	claims := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil {
			if claims[c.ClaimName] {
				return true
			}
			claims[c.ClaimName] = true
		}
	}
	return false
}
