// Package trial runs a scheduler with out-of-tree plugins from its manifests, against a
// development cluster of simulated nodes. It is for the tests and demonstrations of the
// examples.
//
// It takes a folder with binaries, a folder with manifests and the scheduler's binary. It
// returns the running cluster, and a process for each replica of the manifests'
// Deployment. A process has the Deployment's arguments, the files of its volumes, and a
// token of its service account. It owns the processes, and stops them. It contains no
// scheduling logic.
package trial

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// BinEnv names the folder that has the binary devcluster.
const BinEnv = "BERTH_E2E_BIN"

// Bin returns the folder with the binary devcluster, and whether the binary exists. The
// folder is the value of BinEnv, which is not checked, or bin in the folder above
// examples. `make bin/devcluster` builds the binary.
func Bin() (folder string, ok bool) {
	if folder = os.Getenv(BinEnv); folder != "" {
		return folder, true
	}
	folder = filepath.Join("..", "..", "bin")
	for range 2 {
		if _, err := os.Stat(filepath.Join(folder, "devcluster")); err == nil {
			break
		}
		folder = filepath.Join("..", folder)
	}
	_, err := os.Stat(filepath.Join(folder, "devcluster"))
	return folder, err == nil
}

// Cluster is a running development cluster without a scheduler.
type Cluster struct {
	cluster *rig.Cluster
	folder  string
	// Client has all rights and no rate limit.
	Client *kubernetes.Clientset
	config *rest.Config
	// Log receives the output of the cluster and the schedulers; it may be nil.
	log io.Writer
}

// Start starts a cluster of n equal nodes with 32 CPUs each.
func Start(ctx context.Context, bin string, n int, log io.Writer) (*Cluster, error) {
	folder, err := os.MkdirTemp("", "berth-trial-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{folder: folder, log: log}
	c.cluster, err = rig.StartCluster(ctx, bin, log, "--nodes", fmt.Sprint(n), "--node-shape", "uniform", "--data-dir", filepath.Join(folder, "cluster"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if c.Client, err = c.cluster.Client(); err == nil {
		c.config, err = rig.Config(c.cluster.Kubeconfig)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.cluster.Kubeconfig }

// Stop stops the cluster and removes its files.
func (c *Cluster) Stop() error {
	return errors.Join(c.cluster.Stop(), os.RemoveAll(c.folder))
}

// Build builds the program of the Go package in a folder, with `go build`.
func Build(ctx context.Context, folder, binary string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	build.Dir, build.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", folder, err, out)
	}
	return nil
}

// Deployed is a scheduler whose manifests have been applied.
type Deployed struct {
	cluster    *Cluster
	deployment *appsv1.Deployment
	maps       map[string]*v1.ConfigMap
	kubeconfig string
}

// Apply creates the objects of all YAML files in a folder. They must include a Deployment
// of one container.
func (c *Cluster) Apply(ctx context.Context, folder string) (*Deployed, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no manifests in %s: %w", folder, err)
	}
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(c.Client.CoreV1().RESTClient()))
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	d := &Deployed{cluster: c, maps: map[string]*v1.ConfigMap{}}
	for _, file := range files {
		objects, err := read(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			kind := object.GroupVersionKind()
			mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			resource := client.Resource(mapping.Resource).Namespace(object.GetNamespace())
			if _, err := resource.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
				return nil, fmt.Errorf("%s: create %s %s: %w", file, kind.Kind, object.GetName(), err)
			}
			if err := d.note(object); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	if d.deployment == nil || len(d.deployment.Spec.Template.Spec.Containers) != 1 {
		return nil, fmt.Errorf("%s has no Deployment of one container", folder)
	}
	return d, d.login(ctx)
}

// read returns the objects of a YAML file.
func read(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// note stores the objects that the processes need.
func (d *Deployed) note(object *unstructured.Unstructured) error {
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch object.GetKind() {
	case "Deployment":
		d.deployment = &appsv1.Deployment{}
		return convert(object.Object, d.deployment)
	case "ConfigMap":
		m := &v1.ConfigMap{}
		d.maps[object.GetName()] = m
		return convert(object.Object, m)
	}
	return nil
}

// login writes a kubeconfig with a token of the Deployment's service account.
func (d *Deployed) login(ctx context.Context) error {
	account := d.deployment.Spec.Template.Spec.ServiceAccountName
	token, err := d.cluster.Client.CoreV1().ServiceAccounts(d.deployment.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of service account %s: %w", account, err)
	}
	config, err := clientcmd.LoadFromFile(d.cluster.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	d.kubeconfig = filepath.Join(d.cluster.folder, d.deployment.Name+".kubeconfig")
	return clientcmd.WriteToFile(*config, d.kubeconfig)
}

// HoldsFile returns an error unless the manifest's ConfigMap holds a file under its name.
func HoldsFile(manifest, file string) error {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	var m v1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return fmt.Errorf("read %s: %w", manifest, err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if name := filepath.Base(file); m.Data[name] != string(want) {
		return fmt.Errorf("%s does not hold %s", manifest, name)
	}
	return nil
}

// Replicas is how many processes the Deployment runs.
func (d *Deployed) Replicas() int {
	if d.deployment.Spec.Replicas == nil {
		return 1
	}
	return int(*d.deployment.Spec.Replicas)
}

// Replica is one process of the Deployment.
type Replica struct {
	*rig.Process
	container *v1.Container
	port      string
}

// Run starts one replica with the container's arguments. Unlike in a pod, mounted files
// are in their own folders, the port is a free one, and a kubeconfig replaces the mounted
// token.
func (d *Deployed) Run(binary string) (*Replica, error) {
	container := &d.deployment.Spec.Template.Spec.Containers[0]
	root, err := os.MkdirTemp(d.cluster.folder, "replica-")
	if err != nil {
		return nil, err
	}
	for _, mount := range container.VolumeMounts {
		if err := d.mount(mount, filepath.Join(root, mount.MountPath)); err != nil {
			return nil, fmt.Errorf("mount %s: %w", mount.MountPath, err)
		}
	}
	port, err := rig.FreePort()
	if err != nil {
		return nil, err
	}
	args := slices.Clone(container.Args)
	for i := range args {
		for _, mount := range container.VolumeMounts {
			args[i] = strings.ReplaceAll(args[i], mount.MountPath, filepath.Join(root, mount.MountPath))
		}
		if strings.HasPrefix(args[i], "--secure-port=") {
			args[i] = "--secure-port=" + port
		}
	}
	args = append(args, "--bind-address=127.0.0.1", "--authentication-kubeconfig="+d.kubeconfig, "--authorization-kubeconfig="+d.kubeconfig)
	process, err := rig.Start(d.cluster.log, binary, args...)
	if err != nil {
		return nil, err
	}
	return &Replica{process, container, port}, nil
}

// mount writes the files of a ConfigMap into a folder.
func (d *Deployed) mount(mount v1.VolumeMount, folder string) error {
	volumes := d.deployment.Spec.Template.Spec.Volumes
	i := slices.IndexFunc(volumes, func(v v1.Volume) bool { return v.Name == mount.Name })
	if i < 0 || volumes[i].ConfigMap == nil || d.maps[volumes[i].ConfigMap.Name] == nil {
		return fmt.Errorf("volume %s is no ConfigMap of the manifests", mount.Name)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, content := range d.maps[volumes[i].ConfigMap.Name].Data {
		content, err := d.withKubeconfig(content)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// withKubeconfig adds the kubeconfig to a scheduler's configuration, because a process
// outside of a pod has no mounted token.
func (d *Deployed) withKubeconfig(content string) ([]byte, error) {
	var config map[string]any
	if err := yaml.Unmarshal([]byte(content), &config); err != nil {
		return nil, err
	}
	if config["kind"] != "KubeSchedulerConfiguration" {
		return []byte(content), nil
	}
	if err := unstructured.SetNestedField(config, d.kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return nil, err
	}
	return yaml.Marshal(config)
}

// AwaitReady waits until the container's probes succeed.
func (r *Replica) AwaitReady(ctx context.Context) error {
	for _, probe := range []*v1.Probe{r.container.LivenessProbe, r.container.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			continue
		}
		url := strings.ToLower(string(probe.HTTPGet.Scheme)) + "://127.0.0.1:" + r.port + probe.HTTPGet.Path
		if err := r.await(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a URL answers 200.
func (r *Replica) await(ctx context.Context, url string) error {
	// Like the kubelet, which does not verify certificates in probes.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		select {
		case <-r.Exited():
			return fmt.Errorf("the scheduler ended: %w\n%s", r.Failure(), r.Log())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w\n%s", url, context.Cause(ctx), err, r.Log())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
