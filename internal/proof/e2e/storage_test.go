package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// schedulerEnv selects kube-scheduler instead of Berth in tests with volumes and devices,
// if its value is incumbentName. That checks the tests themselves.
const (
	schedulerEnv  = "BERTH_E2E_SCHEDULER"
	incumbentName = "kube-scheduler"
)

// incumbent is a configuration without kube-scheduler's default limit of 50 requests per
// second.
const incumbent = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": false},
"clientConnection": {"kubeconfig": %q, "qps": 10000, "burst": 20000}}`

// storage is a world with volumes. It observes every version of every claim and volume,
// because a double binding may not be visible at the end.
type storage struct {
	*world
	driver     string
	nodes      map[string]*v1.Node
	handedBack atomic.Int64 // number of times that a selected node was removed from a claim

	mu      sync.Mutex
	boundTo map[types.UID]string // last binding of each claim and volume
	wrong   []string
}

func newStorage(t *testing.T, namespace string) *storage {
	t.Helper()
	w := &storage{world: newWorld(t, namespace), driver: namespace + ".example.com", nodes: map[string]*v1.Node{}, boundTo: map[types.UID]string{}}
	list, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		w.nodes[list.Items[i].Name] = &list.Items[i]
	}
	w.observe()
	t.Cleanup(w.clear)
	return w
}

// volumePods is the number of pods of a kind in tests with volumes. The controller
// manager confirms 30 claims per second on an idle machine with two cores, and far fewer
// on a busy one. So tests that run with all others have few. kube-scheduler needs few in
// any case: it checks every volume of a class for every node, which took 0.4 s of CPU per
// pod with 500 local volumes and 500 nodes.
var volumePods = flag.Int("volume-pods", 100, "how many pods of a kind the tests with volumes have; 500 to see many")

// failSeed selects the provisionings that fail when the scheduler dies.
var failSeed = flag.Uint64("fail-seed", 2, "which provisionings fail in the test in which the scheduler dies")

// scheduler starts the scheduler. It is stopped at the end of the test.
func (w *world) scheduler(log io.Writer) *rig.Process {
	w.Helper()
	if !incumbentRuns() {
		return w.startAlone(log)
	}
	file := filepath.Join(w.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, incumbent, cluster.SchedulerKubeconfig), 0o600))
	p, err := cluster.StartKubeScheduler(log, file)
	w.must(err)
	w.Cleanup(p.End) // without leader election its exit code is 1 when it is stopped
	return p
}

func incumbentRuns() bool { return os.Getenv(schedulerEnv) == incumbentName }

// provisioner starts the provisioner and waits until it has published everything. It is
// stopped after the test's claims are gone.
func (w *storage) provisioner(args ...string) {
	w.Helper()
	p, err := cluster.StartProvisioner(nil, append(args, "--driver="+w.driver)...)
	w.must(err)
	w.Cleanup(func() {
		w.clear() // the provisioner has to delete the volumes
		if err := p.Stop(); err != nil {
			w.Error(err)
		}
		w.nothingIsLeft()
	})
	w.await("the provisioner has published its driver", func() bool {
		if err := p.Failure(); err != nil {
			w.Fatalf("the provisioner failed: %v\n%s", err, p.Log())
		}
		_, err := w.client.StorageV1().CSIDrivers().Get(w.ctx, w.driver, metav1.GetOptions{})
		return err == nil
	})
}

// nothingIsLeft checks that the provisioner has deleted its published objects.
func (w *storage) nothingIsLeft() {
	w.Helper()
	ctx := context.Background()
	if _, err := w.client.StorageV1().CSIDrivers().Get(ctx, w.driver, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.Errorf("the CSIDriver is left: %v", err)
	}
	nodes, err := w.client.StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
	w.must(err)
	capacities, err := w.client.StorageV1().CSIStorageCapacities(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	w.must(err)
	if len(nodes.Items)+len(capacities.Items) > 0 {
		w.Errorf("%d CSINodes and %d CSIStorageCapacities are left", len(nodes.Items), len(capacities.Items))
	}
}

func (w *storage) className(class string) string { return w.namespace + "-" + class }

// class creates a StorageClass, optionally limited to zones.
func (w *storage) class(name, provisioner string, mode storagev1.VolumeBindingMode, zones ...string) {
	w.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: w.className(name)}, Provisioner: provisioner, VolumeBindingMode: &mode}
	if len(zones) > 0 {
		class.AllowedTopologies = []v1.TopologySelectorTerm{{
			MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelTopologyZone, Values: zones}},
		}}
	}
	_, err := w.client.StorageV1().StorageClasses().Create(w.ctx, class, metav1.CreateOptions{})
	w.must(err)
}

// localVolumes creates a class and n volumes of it, on the nodes without taints in turns.
func (w *storage) localVolumes(class string, n int) {
	w.Helper()
	w.class(class, "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
	var hosts []string
	on, largest := w.podsByNode(), int64(0)
	for _, node := range w.nodes {
		largest = max(largest, node.Status.Allocatable.Cpu().MilliValue())
	}
	for name, node := range w.nodes {
		if node.Status.Allocatable.Cpu().MilliValue() == largest {
			continue // other pods fill the largest nodes first
		}
		if room := node.Status.Allocatable.Pods().Value() - on[name]; len(node.Spec.Taints) == 0 && room > 10 {
			hosts = append(hosts, name)
		}
	}
	slices.Sort(hosts)
	w.must(rig.InParallel(n, func(i int) error {
		_, err := w.client.CoreV1().PersistentVolumes().Create(w.ctx, &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", w.className(class), i)},
			Spec: v1.PersistentVolumeSpec{
				StorageClassName: w.className(class), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")},
				PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disk"}},
				NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{hosts[i%len(hosts)]}}},
				}}}},
			},
		}, metav1.CreateOptions{})
		return err
	}))
}

func claimSpec(class string) v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// podWith returns a pod with a claim, or without one for "".
func (w *storage) podWith(name, claim string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("100m", "64Mi")}}},
	}
	if claim != "" {
		pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
	return pod
}

// podsWithClaims creates n pods with a claim of a class each.
func (w *storage) podsWithClaims(class string, n int) {
	w.Helper()
	w.must(rig.InParallel(n, func(i int) error {
		name := fmt.Sprintf("%s-%d", class, i)
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(w.className(class))}
		if _, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod := w.podWith(name, name)
		pod.Labels = map[string]string{"class": class}
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
		return err
	}))
}

// observe records the versions of the test's claims and volumes.
func (w *storage) observe() {
	w.Helper()
	factory := informers.NewSharedInformerFactory(w.client, 0)
	seen := func(do func(before, now any)) cache.ResourceEventHandlerFuncs {
		return cache.ResourceEventHandlerFuncs{AddFunc: func(now any) { do(nil, now) }, UpdateFunc: do}
	}
	for informer, do := range map[cache.SharedIndexInformer]func(before, now any){
		factory.Core().V1().PersistentVolumeClaims().Informer(): w.claimSeen,
		factory.Core().V1().PersistentVolumes().Informer():      func(_, now any) { w.volumeSeen(now.(*v1.PersistentVolume)) },
	} {
		_, err := informer.AddEventHandler(seen(do))
		w.must(err)
	}
	factory.StartWithContext(w.ctx)
	factory.WaitForCacheSync(w.ctx.Done())
}

func (w *storage) claimSeen(before, now any) {
	claim := now.(*v1.PersistentVolumeClaim)
	if claim.Namespace != w.namespace {
		return
	}
	w.keeps("claim "+claim.Name, claim.UID, claim.Spec.VolumeName)
	old, ok := before.(*v1.PersistentVolumeClaim)
	if !ok {
		return
	}
	was, is := old.Annotations[volume.AnnSelectedNode], claim.Annotations[volume.AnnSelectedNode]
	switch {
	case was != "" && is == "":
		w.handedBack.Add(1)
	case was != "" && is != was:
		w.note("claim %s: the selected node changed from %s to %s", claim.Name, was, is)
	}
}

func (w *storage) volumeSeen(pv *v1.PersistentVolume) {
	if ref := pv.Spec.ClaimRef; ref != nil && ref.Namespace == w.namespace {
		w.keeps("volume "+pv.Name, pv.UID, string(ref.UID))
	}
}

// keeps records the binding of a claim or volume, which must never change.
func (w *storage) keeps(what string, id types.UID, to string) {
	if to == "" {
		return
	}
	w.mu.Lock()
	first, there := w.boundTo[id]
	w.boundTo[id] = to
	w.mu.Unlock()
	if there && first != to {
		w.note("%s was bound to %s and then to %s", what, first, to)
	}
}

func (w *storage) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// volumesAreWell checks the volumes when all pods run. Each pod is on a node that reaches
// its volume, every claim has a volume of its own, no volume of the test is left over,
// and nothing was ever bound twice.
func (w *storage) volumesAreWell(claims int) {
	w.Helper()
	list, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	volumes, err := w.client.CoreV1().PersistentVolumes().List(w.ctx, metav1.ListOptions{})
	w.must(err)
	byName, provisioned := map[string]*v1.PersistentVolume{}, 0
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		byName[pv.Name] = pv
		if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == w.driver {
			provisioned++
		}
	}
	ofClaim, wanted := map[string]*v1.PersistentVolume{}, 0
	for i := range list.Items {
		claim := &list.Items[i]
		pv := byName[claim.Spec.VolumeName]
		if claim.Status.Phase != v1.ClaimBound || pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
			w.Errorf("claim %s is %s with volume %q, which is %+v", claim.Name, claim.Status.Phase, claim.Spec.VolumeName, pv)
			continue
		}
		ofClaim[claim.Name] = pv
		if pv.Spec.CSI != nil {
			wanted++
		}
	}
	if len(list.Items) != claims || provisioned != wanted {
		w.Errorf("there are %d claims, want %d; %d volumes were provisioned for %d of them", len(list.Items), claims, provisioned, wanted)
	}
	for _, pod := range w.pods() {
		for _, v := range pod.Spec.Volumes {
			name := pod.Name + "-" + v.Name
			if v.PersistentVolumeClaim != nil {
				name = v.PersistentVolumeClaim.ClaimName
			}
			if pv := ofClaim[name]; pv != nil {
				if err := volume.CheckNodeAffinity(pv, w.nodes[pod.Spec.NodeName].Labels); err != nil {
					w.Errorf("pod %s is on node %s, which does not reach its volume: %v", pod.Name, pod.Spec.NodeName, err)
				}
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.Errorf("%d things were bound twice: %s", len(w.wrong), strings.Join(w.wrong[:min(20, len(w.wrong))], "; "))
	}
}

func (w *storage) zoneOf(node string) string { return w.nodes[node].Labels[v1.LabelTopologyZone] }

// clear deletes the test's pods, claims, volumes and classes, and waits until they are
// gone. A second call does nothing.
func (w *storage) clear() {
	w.Helper()
	ctx := context.Background()
	core := w.client.CoreV1()
	w.must(rig.DeletePods(ctx, w.client, w.namespace))
	claims, err := core.PersistentVolumeClaims(w.namespace).List(ctx, metav1.ListOptions{})
	w.must(err)
	w.must(rig.InParallel(len(claims.Items), func(i int) error {
		return gone(core.PersistentVolumeClaims(w.namespace).Delete(ctx, claims.Items[i].Name, metav1.DeleteOptions{}))
	}))
	w.awaitGone("claims", func() (int, error) {
		list, err := core.PersistentVolumeClaims(w.namespace).List(ctx, metav1.ListOptions{})
		return len(list.Items), err
	})
	ours := func() (local []string, n int, err error) {
		list, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
		for _, pv := range list.Items {
			if strings.HasPrefix(pv.Spec.StorageClassName, w.namespace+"-") {
				if n++; pv.Spec.Local != nil {
					local = append(local, pv.Name)
				}
			}
		}
		return local, n, err
	}
	local, _, err := ours()
	w.must(err)
	w.must(rig.InParallel(len(local), func(i int) error {
		return gone(core.PersistentVolumes().Delete(ctx, local[i], metav1.DeleteOptions{}))
	}))
	w.awaitGone("volumes", func() (int, error) { _, n, err := ours(); return n, err })
	classes, err := w.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	w.must(err)
	for _, class := range classes.Items {
		if strings.HasPrefix(class.Name, w.namespace+"-") {
			w.must(gone(w.client.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})))
		}
	}
}

// awaitGone waits until a count is 0, even after the test's timeout.
func (w *world) awaitGone(what string, count func() (int, error)) {
	w.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		n, err := count()
		return n == 0, err
	})
	if err != nil {
		w.Fatalf("waiting until the %s of the test are gone: %v", what, err)
	}
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
