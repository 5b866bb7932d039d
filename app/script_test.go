package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
)

// script is an API server under a test's control. It has the objects that the test adds
// and one lease, stores bindings, and records requests in order. A request can be held
// until the test releases it, or refused.
type script struct {
	t      *testing.T
	server *httptest.Server
	// edit changes the configuration of the replicas that run in this process. options
	// are the options of their command.
	edit    func(*config.Config)
	options []Option
	// drain limits the unfinished writes of replicas from prepare; 0 means the command's
	// default.
	drain time.Duration
	log   klog.Logger // of replicas in a bubble; klog's logger if unset

	mu      sync.Mutex
	news    *sync.Cond // on mu: something was recorded, added or released
	notes   []string   // the events so far, as "REPLICA: VERB OBJECT"
	version int
	objects map[string][]runtime.Object // by resource
	lease   *coordinationv1.Lease       // nil before the first replica acquires it
	held    map[string]bool             // prefixes of notes whose requests wait for their answer
	// refused are prefixes of notes whose requests are answered with "internal error".
	refused map[string]bool
	events  []string // "REASON POD: MESSAGE" of each event
	traced  []string // the notes of requests with a trace context
	// candidate is the last posted one.
	candidate *coordinationv1beta1.LeaseCandidate
	closed    bool
	// minors are the minor versions that requests for the version get, one after the
	// other; the last stays. 0 means an error, and none means 37. No note is taken.
	minors []int
	// period replaces the pause between these requests of replicas; 0 keeps it.
	period time.Duration
}

// deadline is the time after which a test stops waiting for something that does not
// happen.
const deadline = 2 * time.Minute

func newScript(t *testing.T, objects ...runtime.Object) *script {
	t.Helper()
	s := &script{t: t, version: 100, objects: map[string][]runtime.Object{}, held: map[string]bool{}, refused: map[string]bool{}}
	s.news = sync.NewCond(&s.mu)
	s.server = httptest.NewUnstartedServer(s)
	s.server.EnableHTTP2 = true
	s.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate().pair}}
	s.server.StartTLS()
	t.Cleanup(func() {
		s.mu.Lock()
		s.closed = true
		s.news.Broadcast()
		s.mu.Unlock()
		s.server.CloseClientConnections()
		s.server.Close()
	})
	s.add(objects...)
	return s
}

// kubeconfig returns the path of a replica's kubeconfig file. The token identifies the
// replica.
func (s *script) kubeconfig(replica string) string {
	return file(s.t, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, s.server.URL, base64.StdEncoding.EncodeToString(certificate().text), replica))
}

// identity is a certificate for 127.0.0.1 with its key.
type identity struct {
	pair      tls.Certificate
	text, key []byte // in PEM
}

// certificate is shared by the script and the replicas: creating one for each would take
// longer than the tests.
var certificate = sync.OnceValue(func() identity {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	private, err := x509.MarshalECPrivateKey(key)
	must(err)
	i := identity{text: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})}
	i.pair, err = tls.X509KeyPair(i.text, i.key)
	must(err)
	return i
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// add adds pods and nodes to the cluster.
func (s *script) add(objects ...runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range objects {
		s.version++
		resource := "pods"
		switch o := object.(type) {
		case *v1.Node:
			resource, o.TypeMeta, o.ResourceVersion = "nodes", metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, strconv.Itoa(s.version)
		case *v1.Pod:
			o.TypeMeta, o.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, strconv.Itoa(s.version)
		}
		s.objects[resource] = append(s.objects[resource], object)
	}
	s.news.Broadcast()
}

// note records an event. The caller holds mu.
func (s *script) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
	s.news.Broadcast()
}

// noted returns the notes so far.
func (s *script) noted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes)
}

// count returns the number of notes with this prefix.
func count(notes []string, begin string) (n int) {
	for _, note := range notes {
		if strings.HasPrefix(note, begin) {
			n++
		}
	}
	return n
}

// await waits until n notes or events have this prefix.
func (s *script) await(begin string, n int) {
	s.t.Helper()
	s.awaitUntil(fmt.Sprintf("%q %d times", begin, n), func() bool { return count(s.notes, begin)+count(s.events, begin) >= n })
}

// awaitUntil waits until enough returns true. It calls enough with the lock held, again
// after each note.
func (s *script) awaitUntil(what string, enough func() bool) {
	s.t.Helper()
	late := false
	alarm := time.AfterFunc(deadline, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.news.Broadcast()
	})
	defer alarm.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !enough() {
		if late {
			s.t.Fatalf("waited in vain for %s; there was\n%s\n%s", what, strings.Join(s.notes, "\n"), strings.Join(s.events, "\n"))
		}
		s.news.Wait()
	}
}

// hold blocks requests whose notes have this prefix, until letGo.
func (s *script) hold(begin string) { s.set(s.held, begin, true) }

// letGo answers the requests that hold has blocked.
func (s *script) letGo(begin string) { s.set(s.held, begin, false) }

// refuse makes requests fail whose notes have this prefix.
func (s *script) refuse(begin string) { s.set(s.refused, begin, true) }

func (s *script) set(of map[string]bool, begin string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of[begin] = on
	s.news.Broadcast()
}

// handOver changes the holder of the lease; an empty name means none.
func (s *script) handOver(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	now := metav1.NowMicro()
	seconds := int32(600)
	s.lease = &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler", ResourceVersion: strconv.Itoa(s.version)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &to, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}

// holder returns the holder of the lease.
func (s *script) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

func matches(set map[string]bool, note string) bool {
	for begin, on := range set {
		if on && strings.HasPrefix(note, begin) {
			return true
		}
	}
	return false
}

// ServeHTTP records a request and answers it, unless it is held or refused.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		s.serveVersion(w)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil { // the client is gone
		return
	}
	if len(body) > 0 && !strings.Contains(r.Header.Get("Content-Type"), "json") {
		s.answer(w, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "write JSON", 0, true).Status(), http.StatusUnsupportedMediaType)
		return
	}
	if query := r.URL.Query(); query.Get("sendInitialEvents") != "" { // client-go then lists
		status := apierrors.NewInvalid(schema.GroupKind{}, path.Base(r.URL.Path), nil).Status()
		s.answer(w, status, int(status.Code))
		return
	}
	note := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + ": " + s.describe(r, body)
	gone := false
	stop := afterDone(r, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		gone = true
		s.news.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	if r.Header.Get("Traceparent") != "" {
		s.traced = append(s.traced, note)
	}
	s.note("%s", note)
	waited := false
	for matches(s.held, note) && !gone && !s.closed {
		waited = true
		s.news.Wait()
	}
	switch {
	case gone && waited:
		s.note("%s broken off", note)
		s.mu.Unlock()
		return
	case waited:
		s.note("%s answered", note)
	}
	refused := matches(s.refused, note)
	s.mu.Unlock()
	if refused {
		status := apierrors.NewInternalError(fmt.Errorf("refused")).Status()
		s.answer(w, status, int(status.Code))
		return
	}
	s.serve(w, r, body, note, func() bool { return gone || s.closed })
}

// serveVersion answers with the next minor version.
func (s *script) serveVersion(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	minor := 37
	if len(s.minors) > 0 {
		minor = s.minors[0]
	}
	if len(s.minors) > 1 {
		s.minors = s.minors[1:]
		s.news.Broadcast()
	}
	if minor == 0 {
		s.answer(w, apierrors.NewServiceUnavailable("starting").Status(), http.StatusServiceUnavailable)
		return
	}
	s.answer(w, version.Info{Major: "1", Minor: fmt.Sprint(minor, "+"), GitVersion: fmt.Sprintf("v1.%d.0", minor)}, http.StatusOK)
}

// serves replaces the minor versions.
func (s *script) serves(minors ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minors = minors
}

// afterDone calls a function when the client disconnects.
func afterDone(r *http.Request, f func()) (stop func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			f()
		case <-ended:
		}
	}()
	return sync.OnceFunc(func() { close(ended) })
}

// describe returns the note of a request.
func (s *script) describe(r *http.Request, body []byte) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	name := parts[len(parts)-1]
	switch {
	case strings.Contains(r.URL.Path, "/leases"):
		if r.Method == http.MethodGet {
			return "read lease"
		}
		lease := decode[coordinationv1.Lease](s.t, body)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch holder := *lease.Spec.HolderIdentity; {
		case holder == "":
			return "give lease"
		case s.lease != nil && *s.lease.Spec.HolderIdentity == holder:
			return "renew lease"
		}
		return "take lease"
	case name == "binding":
		binding := decode[v1.Binding](s.t, body)
		return "bind " + parts[len(parts)-2] + " to " + binding.Target.Name
	case name == "events" && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "events.k8s.io"):
		event := decode[eventsv1.Event](s.t, body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, fmt.Sprintf("%s %s: %s", event.Reason, event.Regarding.Name, event.Note))
		return fmt.Sprintf("event %s %s", event.Reason, event.Regarding.Name)
	case strings.Contains(r.URL.Path, "/events"):
		return "event about the lease"
	case r.URL.Query().Get("watch") != "":
		return "watch " + name
	case r.Method == http.MethodGet && listed[name] != "":
		return "list " + name
	case name == "status":
		return "status " + parts[len(parts)-2]
	}
	return strings.ToLower(r.Method) + " " + name
}

func decode[T any](t *testing.T, body []byte) *T {
	object := new(T)
	if err := json.Unmarshal(body, object); err != nil {
		t.Errorf("a request has the body %s: %v", body, err)
	}
	return object
}

// listed are the kinds of the listed resources.
var listed = map[string]string{
	"namespaces": "Namespace", "nodes": "Node", "pods": "Pod", "replicasets": "ReplicaSet", "replicationcontrollers": "ReplicationController", "services": "Service",
	"statefulsets": "StatefulSet", "persistentvolumes": "PersistentVolume", "persistentvolumeclaims": "PersistentVolumeClaim", "storageclasses": "StorageClass",
	"csinodes": "CSINode", "csidrivers": "CSIDriver", "csistoragecapacities": "CSIStorageCapacity", "volumeattachments": "VolumeAttachment",
	"poddisruptionbudgets": "PodDisruptionBudget", "configmaps": "ConfigMap", "leasecandidates": "LeaseCandidate",
}

func (s *script) serve(w http.ResponseWriter, r *http.Request, body []byte, note string, gone func() bool) {
	_, what, _ := strings.Cut(note, ": ")
	verb, object, _ := strings.Cut(what, " ")
	switch {
	case object == "lease":
		s.serveLease(w, r, body)
	case verb == "bind":
		pod, node, _ := strings.Cut(object, " to ")
		s.bind(pod, node)
		s.answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, http.StatusCreated)
	case verb == "watch":
		s.watch(w, r, object, note, gone)
	case verb == "list":
		s.list(w, r, object)
	case object == "tokenreviews":
		review := decode[authenticationv1.TokenReview](s.t, body)
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "operator", User: authenticationv1.UserInfo{Username: "operator"}}
		s.answer(w, review, http.StatusCreated)
	case object == "subjectaccessreviews":
		review := decode[authorizationv1.SubjectAccessReview](s.t, body)
		review.Status.Allowed = review.Spec.User == "operator"
		s.answer(w, review, http.StatusCreated)
	case verb == "post" && object == "leasecandidates":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.candidate = decode[coordinationv1beta1.LeaseCandidate](s.t, body)
		s.answer(w, s.candidate, http.StatusCreated)
	case verb == "get":
		s.get(w, object)
	default:
		s.answer(w, json.RawMessage(body), http.StatusOK)
	}
}

func (s *script) answer(w http.ResponseWriter, body any, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// serveLease reads or stores the lease. A version based on an older one is refused.
func (s *script) serveLease(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet {
		lease := decode[coordinationv1.Lease](s.t, body)
		if s.lease != nil && s.lease.ResourceVersion != lease.ResourceVersion {
			status := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, lease.Name, nil).Status()
			s.answer(w, status, int(status.Code))
			return
		}
		s.version++
		lease.ResourceVersion = strconv.Itoa(s.version)
		lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
		s.lease = lease
	}
	if s.lease == nil {
		status := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "kube-scheduler").Status()
		s.answer(w, status, int(status.Code))
		return
	}
	s.answer(w, s.lease, http.StatusOK)
}

// bind puts a pod on a node.
func (s *script) bind(name, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range s.newest("pods") {
		if pod := object.(*v1.Pod); pod.Name == name {
			bound := pod.DeepCopy()
			s.version++
			bound.Spec.NodeName, bound.ResourceVersion = node, strconv.Itoa(s.version)
			s.objects["pods"] = append(s.objects["pods"], bound) // the newest version is the last
		}
	}
	s.news.Broadcast()
}

// newest returns the newest versions of a resource's objects. The caller holds mu.
func (s *script) newest(resource string) []runtime.Object {
	var all []runtime.Object
	for i, object := range s.objects[resource] {
		name := object.(metav1.Object).GetName()
		if !slices.ContainsFunc(s.objects[resource][i+1:], func(o runtime.Object) bool { return o.(metav1.Object).GetName() == name }) {
			all = append(all, object)
		}
	}
	return all
}

func (s *script) list(w http.ResponseWriter, r *http.Request, resource string) {
	s.mu.Lock()
	items, version := s.newest(resource), s.version
	s.mu.Unlock()
	if items == nil {
		items = []runtime.Object{}
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	apiVersion := parts[1]
	if parts[0] == "apis" {
		apiVersion += "/" + parts[2]
	}
	s.answer(w, struct {
		metav1.TypeMeta
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []runtime.Object `json:"items"`
	}{
		metav1.TypeMeta{APIVersion: apiVersion, Kind: listed[resource] + "List"},
		metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}, items,
	}, http.StatusOK)
}

// get answers with a pod.
func (s *script) get(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range s.newest("pods") {
		if object.(*v1.Pod).Name == name {
			s.answer(w, object, http.StatusOK)
			return
		}
	}
	status := apierrors.NewNotFound(schema.GroupResource{}, name).Status()
	s.answer(w, status, int(status.Code))
}

// watch sends a resource's versions that are newer than the client's, until the client
// disconnects.
func (s *script) watch(w http.ResponseWriter, r *http.Request, resource, note string, gone func() bool) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		s.t.Errorf("%s from version %q", note, r.URL.Query().Get("resourceVersion"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := 0; !gone(); {
		if next == len(s.objects[resource]) {
			s.news.Wait()
			continue
		}
		object := s.objects[resource][next]
		next++
		meta := object.(metav1.Object)
		if version, _ := strconv.Atoi(meta.GetResourceVersion()); version <= since {
			continue
		}
		event := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: object}}
		if slices.ContainsFunc(s.objects[resource][:next-1], func(o runtime.Object) bool { return o.(metav1.Object).GetName() == meta.GetName() }) {
			event.Type = "MODIFIED"
		}
		_ = json.NewEncoder(w).Encode(event) // the client may be gone
		w.(http.Flusher).Flush()
	}
	s.note("%s ended", note)
}
