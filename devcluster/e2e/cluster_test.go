package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/devcluster/internal/cluster"
)

// binaryEnv names a built devcluster. Without it the tests build one. They never link it,
// so the race detector does not require a special build of all of Kubernetes.
const binaryEnv = "DEVCLUSTER"

// Exit codes of devcluster.
const (
	exitFailed = 1
	exitUsage  = 2
)

// binary is the program under test.
var binary = os.Getenv(binaryEnv)

// patience is far above the time of any step on a slow and busy machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if binary == "" {
		folder, err := os.MkdirTemp("", "devcluster-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
		binary = filepath.Join(folder, "devcluster")
		build := exec.Command("go", "build", "-o", binary, "..")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "build devcluster: %v\n", err)
			return 1
		}
	}
	return m.Run()
}

// TestCluster walks through the life of one cluster.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--nodes=10", "--data-dir="+dir, "--ready-file="+filepath.Join(dir, "copy.json"), "--kubeconfig-out="+filepath.Join(dir, "copy.kubeconfig"))
	admin := client(t, p.report.Kubeconfig)
	scheduler := client(t, p.report.SchedulerKubeconfig)

	t.Run("files are in place", func(t *testing.T) { checkFiles(t, p, dir) })
	t.Run("nodes are ready", func(t *testing.T) { checkNodes(t, admin, 10) })
	t.Run("bound pod runs and goes", func(t *testing.T) { checkPodLife(t, admin, scheduler, "before") })
	t.Run("deployment becomes available", func(t *testing.T) { checkDeployment(t, admin, scheduler) })
	t.Run("nodes admit pods as a kubelet does", func(t *testing.T) { checkAdmission(t, admin, scheduler) })
	t.Run("scheduler has its rights and no more", func(t *testing.T) { checkRights(t, scheduler) })
	t.Run("API server restarts alone", func(t *testing.T) { checkRestart(t, p, admin) })
	t.Run("bound pod runs and goes after the restart", func(t *testing.T) { checkPodLife(t, admin, scheduler, "after") })
	t.Run("stop leaves nothing", func(t *testing.T) { checkStop(t, p) })
	t.Run("next start resumes", func(t *testing.T) {
		resumed := start(t, "--nodes=11", "--data-dir="+dir)
		admin := client(t, resumed.report.Kubeconfig)
		checkNodes(t, admin, 11)
		checkAdmissionAfterResume(t, admin, client(t, resumed.report.SchedulerKubeconfig))
		checkStop(t, resumed)
	})
}

// TestBareCluster runs a cluster as benchmarks do: only the API server and etcd.
func TestBareCluster(t *testing.T) {
	p := start(t, "--nodes=5", "--node-shape=uniform", "--with-kwok=false", "--without-controllers")
	admin := client(t, p.report.Kubeconfig)

	checkNodes(t, admin, 5)
	if server, err := admin.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	} else if have, err := version.ParseSemantic(server.GitVersion); err != nil || have.Major() != 1 || have.Minor() == 0 {
		t.Errorf("the API server's version is %s: %v", server.GitVersion, err)
	}
	if len(p.report.PIDs) != 2 {
		t.Errorf("more than etcd and the API server run: %v", p.report.PIDs)
	}
	bind(t, client(t, p.report.SchedulerKubeconfig), create(t, admin, "bare"), firstNode(t, admin))
	checkStop(t, p)
	if _, err := os.Stat(p.report.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary data folder is left: %v", err)
	}
}

func TestControllersWithoutAgent(t *testing.T) {
	p := start(t, "--nodes=3", "--with-kwok=false")
	checkNodes(t, client(t, p.report.Kubeconfig), 3)
	checkStop(t, p)
}

func TestKilledParentTakesItsChildrenAlong(t *testing.T) {
	p := start(t, "--nodes=0", "--data-dir="+t.TempDir())
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	checkGone(t, p)
}

func TestDeadComponentStopsEverything(t *testing.T) {
	p := start(t, "--nodes=0", "--with-kwok=false", "--without-controllers", "--data-dir="+t.TempDir())
	if err := syscall.Kill(p.report.PIDs["etcd"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if want := "etcd ended unexpectedly: signal: killed"; !strings.Contains(p.stderr.String(), want) {
		t.Errorf("standard error lacks %q:\n%s", want, p.stderr)
	}
	checkGone(t, p)
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	skipIfShort(t)
	var stderr bytes.Buffer
	dir := t.TempDir()
	cmd := command("--nodes=0", "--feature-gates=NoSuchGate=true", "--data-dir="+dir)
	cmd.Stderr = &stderr
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	for _, want := range []string{"kube-apiserver ended unexpectedly", "NoSuchGate", filepath.Join(dir, "logs", "kube-apiserver.log")} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr.String())
		}
	}
}

func TestDataFolderIsUsedOnce(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--nodes=0", "--with-kwok=false", "--without-controllers", "--data-dir="+dir)
	output, err := command("--data-dir=" + dir).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "another devcluster uses it") {
		t.Errorf("got %v: %s", err, output)
	}
	checkStop(t, p)
}

func TestBadFlagIsAUsageError(t *testing.T) {
	cmd := command("--nodes=-3")
	output, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	if !strings.Contains(string(output), "--nodes: -3") {
		t.Errorf("the message does not name the flag: %s", output)
	}
}

func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real cluster")
	}
}

// process is a running devcluster. stderr may be read once exited is closed.
type process struct {
	cmd    *exec.Cmd
	report cluster.Report
	stderr *bytes.Buffer
	exited chan struct{}
}

func command(args ...string) *exec.Cmd {
	return exec.Command(binary, args...)
}

// start runs devcluster and waits until it is ready. The end of the test stops it.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	skipIfShort(t)
	p := &process{cmd: command(args...), stderr: &bytes.Buffer{}, exited: make(chan struct{})}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p.cmd.Stdout, p.cmd.Stderr = write, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.exited
		if t.Failed() {
			t.Logf("standard error of devcluster:\n%s", p.stderr)
		}
	})

	_ = read.SetReadDeadline(time.Now().Add(patience))
	decoder := json.NewDecoder(read)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p.report); err != nil {
		t.Fatalf("read the ready line: %v", err)
	}
	return p
}

func client(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually calls ask until it returns nil.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func checkFiles(t *testing.T, p *process, dir string) {
	for a, b := range map[string]string{
		filepath.Join(dir, "ready.json"): filepath.Join(dir, "copy.json"),
		p.report.Kubeconfig:              filepath.Join(dir, "copy.kubeconfig"),
	} {
		if x, y := readFile(t, a), readFile(t, b); x != y {
			t.Errorf("%s and %s differ:\n%s\n%s", a, b, x, y)
		}
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok"} {
		if p.report.PIDs[name] == 0 {
			t.Errorf("no process id of %s", name)
		}
		readFile(t, filepath.Join(dir, "logs", name+".log"))
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

// checkNodes expects the fields of nodes that a scheduler needs to place a pod.
func checkNodes(t *testing.T, c *kubernetes.Clientset, want int) {
	t.Helper()
	nodes, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != want {
		t.Errorf("%d nodes, want %d", len(nodes.Items), want)
	}
	for _, n := range nodes.Items {
		for _, taint := range n.Spec.Taints {
			if strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
				t.Errorf("%s is tainted: %s", n.Name, taint.Key)
			}
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				t.Errorf("%s is not ready: %s", n.Name, c.Message)
			}
		}
	}
}

func firstNode(t *testing.T, c *kubernetes.Clientset) string {
	t.Helper()
	nodes, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("no node to be found: %v", err)
	}
	return nodes.Items[0].Name
}

var podSpec = corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/pause:3.10"}}}

func create(t *testing.T, c *kubernetes.Clientset, name string) *corev1.Pod {
	t.Helper()
	return createPod(t, c, name, podSpec)
}

func createPod(t *testing.T, c *kubernetes.Clientset, name string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}, Spec: spec}
	created, err := c.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// bind places a pod as a scheduler does.
func bind(t *testing.T, scheduler *kubernetes.Clientset, pod *corev1.Pod, node string) {
	t.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := scheduler.CoreV1().Pods(pod.Namespace).Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func checkPodLife(t *testing.T, admin, scheduler *kubernetes.Clientset, name string) {
	pod := create(t, admin, name)
	bind(t, scheduler, pod, firstNode(t, admin))

	pods := admin.CoreV1().Pods(pod.Namespace)
	eventually(t, "pod runs", func(ctx context.Context) error {
		got, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (got.Status.Phase != corev1.PodRunning || got.Status.PodIP == "") {
			err = fmt.Errorf("it is %s with address %q", got.Status.Phase, got.Status.PodIP)
		}
		return err
	})
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod goes", func(ctx context.Context) error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

func checkDeployment(t *testing.T, admin, scheduler *kubernetes.Clientset) {
	const replicas = 3
	labels := map[string]string{"app": "web"}
	deployments := admin.AppsV1().Deployments(metav1.NamespaceDefault)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	var pods *corev1.PodList
	eventually(t, "pods are created", func(ctx context.Context) error {
		pods, err = scheduler.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err == nil && len(pods.Items) < replicas {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
	node := firstNode(t, admin)
	for i := range pods.Items {
		bind(t, scheduler, &pods.Items[i], node)
	}
	eventually(t, "deployment is available", func(ctx context.Context) error {
		got, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && got.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d replicas are", got.Status.AvailableReplicas)
		}
		return err
	})
}

func checkRights(t *testing.T, scheduler *kubernetes.Clientset) {
	core := scheduler.CoreV1()
	if _, err := core.Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a scheduler lists pods: %v", err)
	}
	if _, err := core.Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a scheduler has no business with secrets, yet got %v", err)
	}
	if err := core.Nodes().Delete(t.Context(), "any", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a scheduler deletes no nodes, yet got %v", err)
	}
}

// checkRestart restarts the API server and waits until the ready file names the new
// process.
func checkRestart(t *testing.T, p *process, admin *kubernetes.Clientset) {
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	before := p.report
	eventually(t, "API server is back", func(context.Context) error {
		content, err := os.ReadFile(filepath.Join(before.DataDir, "ready.json"))
		if err != nil {
			return err
		}
		p.report = cluster.Report{}
		if err := json.Unmarshal(content, &p.report); err != nil {
			return err
		}
		if p.report.PIDs["kube-apiserver"] == before.PIDs["kube-apiserver"] {
			return errors.New("it is still the same process")
		}
		return nil
	})
	if p.report.Server != before.Server {
		t.Errorf("it moved from %s to %s", before.Server, p.report.Server)
	}
	for _, name := range []string{"etcd", "kube-controller-manager", "kwok"} {
		if p.report.PIDs[name] != before.PIDs[name] {
			t.Errorf("%s was restarted too", name)
		}
	}
	checkNodes(t, admin, p.report.Nodes)
}

func checkStop(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after a clean stop", code)
	}
	checkGone(t, p)
}

// checkGone expects that soon no child lives and the API server's port is free. Both are
// checked: a killed process counts as ended while its last threads still hold its
// sockets.
func checkGone(t *testing.T, p *process) {
	t.Helper()
	server, err := url.Parse(p.report.Server)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "children and their ports are gone", func(context.Context) error {
		for name, pid := range p.report.PIDs {
			if lives(pid) {
				return fmt.Errorf("%s (%d) lives", name, pid)
			}
		}
		listener, err := net.Listen("tcp", server.Host)
		if err != nil {
			return err
		}
		return listener.Close()
	})
}

// lives reports whether a process runs; a zombie does not.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
