package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// fullNode has volumes of many drivers, each driver at its limit.
type fullNode struct {
	t       *testing.T
	state   *state.State
	rules   queue.Config
	waiting []*model.Pod
}

// newFullNode makes the node n with a volume used-N of each driver dN attached, and pods
// that wait for the drivers in turn. The claim cN of a pod is bound to the volume vN.
func newFullNode(t *testing.T, drivers, pods int) *fullNode {
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	f := &fullNode{t: t, state: state.New(), rules: c.Queue(time.Hour)}
	f.rules.State = f.state
	limits := make([]string, drivers)
	for i := range limits {
		limits[i] = fmt.Sprintf("d%d=1", i)
		used := fmt.Sprint("used-", i)
		f.set(build.PersistentVolume(used, fmt.Sprintf("phase=Bound csi=d%d/%s", i, used)))
		f.set(build.VolumeAttachment(used, fmt.Sprintf("attacher=d%d node=n volume=%s", i, used)))
	}
	f.set(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, build.CSINode("n", strings.Join(limits, " ")))
	for i := range pods {
		f.set(build.PersistentVolume(fmt.Sprint("v", i), fmt.Sprintf("phase=Bound csi=d%d/v%d", i%drivers, i)),
			build.PersistentVolumeClaim(fmt.Sprint("c", i), fmt.Sprintf("bound=v%d", i)))
		pod := model.NewPod(build.Pod(build.Named(fmt.Sprint("p", i)), build.Claims(fmt.Sprint("c", i)), func(p *v1.Pod) {
			p.Spec.SchedulerName = c.Profiles[0].Name
		}))
		c.Profiles[0].Compile(pod)
		f.waiting = append(f.waiting, pod)
	}
	return f
}

func (f *fullNode) set(objects ...kinds.Object) []model.Event {
	changes := make([]model.Change, len(objects))
	for i, o := range objects {
		changes[i] = kinds.Of(o).Change(o)
	}
	return f.state.Apply(changes).Events
}

// wokenBy returns how many of the pods that a plugin rejected are woken by changes, and
// how many hints that takes. It parks these pods again.
func wokenBy(q *queue.Queue, plugin string, changes func() []model.Event) (pods int, hints int64) {
	parked, before := q.Counts().Parked, q.HintsAsked()
	now := noon.Add(time.Minute)
	for delta := (state.Delta{Events: changes()}); ; delta = (state.Delta{}) {
		if q.Wake(now, delta); !q.Unfinished() {
			break
		}
	}
	pods, hints = parked-q.Counts().Parked, q.HintsAsked()-before
	parkAll(q, now, []string{plugin})
	return pods, hints
}

// TestVolumesFindWhoCanUseThem changes the volumes on a node beside 10,000 pods that wait
// for 1,000 drivers at their limits. Only pods of the driver concerned are woken, and by
// a volume that is attached only the pod with this volume.
func TestVolumesFindWhoCanUseThem(t *testing.T) {
	const drivers, pods = 1000, 10_000
	f := newFullNode(t, drivers, pods)
	attach := func(volume, driver string) func() []model.Event {
		return func() []model.Event {
			return f.set(build.VolumeAttachment(volume, "attacher="+driver+" node=n volume="+volume))
		}
	}
	remove := func(kind model.Kind, name string) func() []model.Event {
		return func() []model.Event {
			return f.state.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: kind, Name: name}}}).Events
		}
	}
	f.set(build.PersistentVolume("copy", "phase=Bound csi=d5/v5"), build.PersistentVolume("other", "phase=Bound csi=d5/other"))
	f.set(build.PersistentVolumeClaim("shared", "bound=used-8"),
		build.Pod(build.Named("user"), build.NodeName("n"), build.Claims("shared")))
	q := parkedUnder(t, f.rules, f.waiting, "NodeVolumeLimits")
	for _, row := range []struct {
		name    string
		changes func() []model.Event
		want    int
	}{
		{"a volume is detached", remove(model.VolumeAttachmentKind, "used-7"), pods / drivers},
		{"a volume is detached that a pod there uses", remove(model.VolumeAttachmentKind, "used-8"), 0},
		{"an attached volume is gone", remove(model.PersistentVolumeKind, "used-9"), pods / drivers},
		{"the volume of a pod there is gone", remove(model.PersistentVolumeKind, "used-8"), pods / drivers},
		{"a pod's own volume is attached", attach("v3", "d3"), 1},
		{"its status changes", attach("v3", "d3"), 0},
		{"a pod's volume is attached under another name", attach("copy", "d5"), 1},
		{"another volume of the driver is attached", attach("other", "d5"), 0},
		{"it is detached, and no room is left", remove(model.VolumeAttachmentKind, "other"), 0},
	} {
		if woken, hints := wokenBy(q, "NodeVolumeLimits", row.changes); woken != row.want || hints > int64(row.want) {
			t.Errorf("%s: %d pods are woken after %d hints, want %d", row.name, woken, hints, row.want)
		}
	}
}
