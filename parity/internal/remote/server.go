// Package remote answers questions about kube-scheduler from another process.
//
// Two releases of k8s.io/kubernetes cannot be linked into one program. So a program with
// one release serves package upstream on its standard input and output, and parity with
// another release sends its questions there. Both ends are in this package, which is
// compiled with each release. A Client takes the same calls as an upstream.Scheduler and
// returns the same results. The server owns the schedulers until they are closed. Nothing
// here compares or decides.
package remote

import (
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"runtime/debug"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// service is the name of the server's methods.
const service = "KubeScheduler"

// Question is a call of a Scheduler's method.
type Question struct {
	Scheduler int
	Method    string
	Object    *object `json:",omitempty"` // the pod, node or other object
	Config    []byte  `json:",omitempty"`
	Namespace string  `json:",omitempty"`
	Name      string  `json:",omitempty"` // of the pod or node
	UID       types.UID
}

// Answer is the result of a call.
type Answer struct {
	Scheduler    int               `json:",omitempty"`
	Version      string            `json:",omitempty"`
	Verdict      *upstream.Verdict `json:",omitempty"`
	Objects      []object          `json:",omitempty"`
	Calls, Waits []string          `json:",omitempty"`
}

// server has the schedulers by number. Calls about one scheduler never overlap.
type server struct {
	mu   sync.Mutex
	all  map[int]*upstream.Scheduler
	last int
}

// Serve answers questions until the connection ends.
func Serve(conn io.ReadWriteCloser) error {
	s := rpc.NewServer()
	if err := s.RegisterName(service, &methods{&server{all: map[int]*upstream.Scheduler{}}}); err != nil {
		return fmt.Errorf("serve kube-scheduler: %w", err)
	}
	s.ServeCodec(jsonrpc.NewServerCodec(conn))
	return nil
}

// methods has the exported methods that package rpc finds.
type methods struct{ server *server }

// Call answers a question.
func (m *methods) Call(q Question, a *Answer) (err error) {
	switch q.Method {
	case "Version":
		a.Version = version()
		return nil
	case "New":
		a.Scheduler, err = m.server.add(q.Config)
		return err
	}
	s, err := m.server.scheduler(&q)
	if err != nil {
		return err
	}
	if known, err := change(s, &q); known {
		return err
	}
	return ask(s, &q, a)
}

func (s *server) add(config []byte) (int, error) {
	made, err := upstream.New(config)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.all[s.last] = made
	return s.last, nil
}

func (s *server) scheduler(q *Question) (*upstream.Scheduler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[q.Scheduler]
	if of == nil {
		return nil, fmt.Errorf("no scheduler has the number %d", q.Scheduler)
	}
	if q.Method == "Close" {
		delete(s.all, q.Scheduler)
	}
	return of, nil
}

// version returns the version of k8s.io/kubernetes in this program, or "" in a test.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	return ""
}

// change calls a method without a result. It reports whether the method exists.
func change(s *upstream.Scheduler, q *Question) (known bool, err error) {
	switch q.Method {
	case "Close":
		s.Close()
	case "SetNode":
		s.SetNode(q.Object.Object.(*v1.Node))
	case "RemoveNode":
		err = s.RemoveNode(q.Name)
	case "SetPod":
		err = s.SetPod(q.pod())
	case "RemovePod":
		err = s.RemovePod(q.Namespace, q.Name)
	case "SetObject":
		err = s.SetObject(q.Object.Object)
	case "RemoveObject":
		err = s.RemoveObject(q.Object.Object)
	case "Assume":
		err = s.Assume(q.pod(), q.Name)
	case "Forget":
		err = s.Forget(q.pod())
	case "Nominate":
		err = s.Nominate(q.pod(), q.Name)
	case "Evict":
		s.Evict(q.pod())
	case "Kept":
		s.Kept(q.UID)
	case "Allocated":
		s.Allocated(q.UID)
	default:
		return false, nil
	}
	return true, err
}

// ask calls a method with a result.
func ask(s *upstream.Scheduler, q *Question, a *Answer) (err error) {
	switch q.Method {
	case "Explain":
		a.Verdict, err = s.Explain(q.pod())
	case "Judge":
		a.Verdict, err = s.Judge(q.pod())
	case "Commit":
		a.Verdict, a.Calls, a.Waits = s.Commit(q.Name)
	case "Reserve":
		var written []runtime.Object
		written, err = s.Reserve(q.pod(), q.Name)
		a.Objects = objects(written)
	case "Nodes":
		a.Objects = objects(s.Nodes())
	case "Placed":
		a.Objects = objects(s.Placed())
	case "Nominated":
		a.Objects = objects(s.Nominated())
	default:
		err = fmt.Errorf("no method has the name %q", q.Method)
	}
	return err
}

func (q *Question) pod() *v1.Pod { return q.Object.Object.(*v1.Pod) }

func objects[T runtime.Object](from []T) []object {
	to := make([]object, len(from))
	for i, o := range from {
		to[i] = object{o}
	}
	return to
}
