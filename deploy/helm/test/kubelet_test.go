package test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/deploy/helm/test/chart"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// kubelet replaces the nodes' kubelets and the existing scheduler. It gives the release's
// pods a node, runs a process for each from the pod's spec, probes it, stops it when the
// pod is deleted, and then removes the pod. Other deleted pods are only removed.
type kubelet struct {
	*testing.T
	client *kubernetes.Clientset
	admin  string // path of an administrator's kubeconfig
	binary string // in place of the image's /usr/local/bin/berth
	folder string
	nodes  []string
	failed context.CancelCauseFunc // ends the test at once

	// mu guards the fields below, and ready, stopped and crashed of the replicas, which
	// only run changes.
	mu       sync.Mutex
	replicas map[types.UID]*replica
	// history has every replica ever started, in order.
	history []*replica
	// mayCrash allows processes to exit on their own.
	mayCrash bool
	// fewest is the minimum number of ready replicas when one was stopped.
	fewest int
}

// replica is the process of a pod.
type replica struct {
	pod     *v1.Pod
	process *rig.Process
	port    string
	config  string // the configuration file as it was mounted
	ready   bool   // as in the pod's status
	stopped bool
	crashed bool // it exited on its own; unlike a kubelet, the test does not restart it
}

// imageBinary is the program's path in the image.
const imageBinary = "/usr/local/bin/berth"

// tokenPath is the mount path of the service account token, which the kubeconfig
// replaces.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// run works until the context ends, and then kills all processes.
func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		pods, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(pods.Items); i++ {
			err = k.reconcile(ctx, &pods.Items[i])
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			k.Errorf("kubelet: %v", err)
			k.failed(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.replicas {
		r.process.Kill()
	}
}

func (k *kubelet) reconcile(ctx context.Context, pod *v1.Pod) error {
	ours := pod.Namespace == chart.Namespace
	r := k.replicaOf(pod)
	switch {
	case pod.DeletionTimestamp != nil && r != nil:
		return k.stop(ctx, r)
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
		return k.remove(ctx, pod)
	case pod.DeletionTimestamp != nil || !ours:
		return nil
	case pod.Spec.NodeName == "":
		node := k.nodes[len(k.history)%len(k.nodes)]
		return k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	case r == nil:
		return k.start(ctx, pod)
	default:
		return k.probe(ctx, r)
	}
}

func (k *kubelet) replicaOf(pod *v1.Pod) *replica {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.replicas[pod.UID]
}

// ready returns the ready replicas that are not being stopped.
func (k *kubelet) ready() []*replica {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readyNow()
}

// readyNow is ready for callers with the lock.
func (k *kubelet) readyNow() []*replica {
	var all []*replica
	for _, r := range k.history {
		if r.ready && !r.stopped {
			all = append(all, r)
		}
	}
	return all
}

func (k *kubelet) letCrash(may bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mayCrash = may
}

// lastCrashed returns the newest replica if it has exited on its own, or nil.
func (k *kubelet) lastCrashed() *replica {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.history[len(k.history)-1]; r.crashed {
		return r
	}
	return nil
}

func (k *kubelet) remove(ctx context.Context, pod *v1.Pod) error {
	now := int64(0)
	return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

// stop sends a pod's process SIGTERM. It removes the pod when the process has ended.
func (k *kubelet) stop(ctx context.Context, r *replica) error {
	if !r.stopped {
		k.mu.Lock()
		r.stopped = true
		k.fewest = min(k.fewest, len(k.readyNow()))
		k.mu.Unlock()
		r.process.Signal(syscall.SIGTERM)
	}
	select {
	case <-r.process.Exited():
		if err := r.process.Failure(); err != nil && !r.crashed {
			k.Errorf("the process of pod %s ended with %v\n%s", r.pod.Name, err, r.process.Log())
		}
		k.mu.Lock()
		delete(k.replicas, r.pod.UID)
		k.mu.Unlock()
		return k.remove(ctx, r.pod)
	default:
		return nil
	}
}

// start runs a pod's container with the pod's arguments, adapted to a process: mounted
// files are in a separate folder, and the port is a free one on loopback. A kubeconfig
// with a token of the pod's service account replaces the mounted token.
func (k *kubelet) start(ctx context.Context, pod *v1.Pod) error {
	c := &pod.Spec.Containers[0]
	if len(c.Command) != 1 || c.Command[0] != imageBinary {
		return fmt.Errorf("pod %s runs %q, which the image does not have", pod.Name, c.Command)
	}
	root := filepath.Join(k.folder, pod.Name)
	kubeconfig, err := k.login(ctx, pod, root)
	if err != nil {
		return err
	}
	r := &replica{pod: pod}
	mounts := slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m v1.VolumeMount) bool { return m.MountPath == tokenPath })
	for _, mount := range mounts {
		if err := k.mount(ctx, r, mount, filepath.Join(root, mount.MountPath), kubeconfig); err != nil {
			return fmt.Errorf("mount %s: %w", mount.MountPath, err)
		}
	}
	if r.port, err = rig.FreePort(); err != nil {
		return err
	}
	args := slices.Clone(c.Args)
	for i := range args {
		for _, mount := range mounts {
			args[i] = strings.ReplaceAll(args[i], mount.MountPath, filepath.Join(root, mount.MountPath))
		}
		if args[i] == fmt.Sprintf("--secure-port=%d", c.Ports[0].ContainerPort) {
			args[i] = "--secure-port=" + r.port
		}
	}
	args = append(args, "--bind-address=127.0.0.1", "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	if r.process, err = rig.Start(nil, k.binary, args...); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.replicas[pod.UID] = r
	k.history = append(k.history, r)
	return nil
}

// login writes a kubeconfig with a token bound to the pod and returns its path.
func (k *kubelet) login(ctx context.Context, pod *v1.Pod, folder string) (string, error) {
	token, err := k.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s: %w", pod.Spec.ServiceAccountName, err)
	}
	config, err := clientcmd.LoadFromFile(k.admin)
	if err != nil {
		return "", err
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return "", err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(folder, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// mount writes the files of a ConfigMap into a folder.
func (k *kubelet) mount(ctx context.Context, r *replica, mount v1.VolumeMount, folder, kubeconfig string) error {
	i := slices.IndexFunc(r.pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == mount.Name })
	if i < 0 || r.pod.Spec.Volumes[i].ConfigMap == nil {
		return fmt.Errorf("volume %s is no ConfigMap", mount.Name)
	}
	config, err := k.client.CoreV1().ConfigMaps(r.pod.Namespace).Get(ctx, r.pod.Spec.Volumes[i].ConfigMap.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, content := range config.Data {
		if name == "config.yaml" {
			r.config = content
			if content, err = withKubeconfig(content, kubeconfig); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func withKubeconfig(content, kubeconfig string) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(content), &config); err != nil {
		return "", err
	}
	if err := unstructured.SetNestedField(config, kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(config)
	return string(text), err
}

// prober does not verify the server's certificate, like a kubelet's probes.
var prober = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// ask sends a GET, with a token unless it is empty.
func (r *replica) ask(ctx context.Context, path, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+r.port+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return prober.Do(request)
}

// probe runs the pod's probes and makes the pod Ready when all of them succeed.
func (k *kubelet) probe(ctx context.Context, r *replica) error {
	select {
	case <-r.process.Exited():
		k.mu.Lock()
		defer k.mu.Unlock()
		if r.crashed = r.crashed || k.mayCrash; r.crashed {
			return nil
		}
		return fmt.Errorf("the process of pod %s ended by itself: %w\n%s", r.pod.Name, r.process.Failure(), r.process.Log())
	default:
	}
	if r.ready {
		return nil
	}
	c := &r.pod.Spec.Containers[0]
	for _, probe := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe.HTTPGet.Scheme != v1.URISchemeHTTPS || probe.HTTPGet.Port.String() != c.Ports[0].Name {
			return fmt.Errorf("pod %s: a probe asks %+v", r.pod.Name, probe.HTTPGet)
		}
		response, err := r.ask(ctx, probe.HTTPGet.Path, "")
		if err != nil {
			return nil // it is not serving yet
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil
		}
	}
	now := metav1.Now()
	status := v1.PodStatus{Phase: v1.PodRunning, StartTime: &now}
	for _, condition := range []v1.PodConditionType{v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: now})
	}
	status.ContainerStatuses = []v1.ContainerStatus{{Name: c.Name, Image: c.Image, Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.pod.UID}, "status": status})
	if err != nil {
		return err
	}
	if _, err := k.client.CoreV1().Pods(r.pod.Namespace).Patch(ctx, r.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r.ready = true
	return nil
}
