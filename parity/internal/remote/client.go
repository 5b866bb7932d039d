package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// Client sends questions to one server. It is safe for concurrent use.
type Client struct {
	rpc *rpc.Client
	// Version is the server's version of k8s.io/kubernetes.
	Version string
	ended   func() error
}

// Dial connects to the server at the other end of a connection.
func Dial(conn io.ReadWriteCloser) (*Client, error) {
	c := &Client{rpc: jsonrpc.NewClient(conn), ended: func() error { return nil }}
	a, err := c.call(Question{Method: "Version"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the version of kube-scheduler: %w", err), c.rpc.Close())
	}
	c.Version = a.Version
	return c, nil
}

// Start starts a program that serves kube-scheduler. Its standard error is this
// process's.
func Start(ctx context.Context, program string) (*Client, error) {
	command := exec.CommandContext(ctx, program)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	c, err := Dial(Pipe{out, in})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", program, err), command.Wait())
	}
	c.ended = command.Wait
	return c, nil
}

// Pipe is a connection of two streams.
type Pipe struct {
	io.Reader
	io.WriteCloser
}

// Close ends the server, and waits for its process.
func (c *Client) Close() error { return errors.Join(c.rpc.Close(), c.ended()) }

func (c *Client) call(q Question) (*Answer, error) {
	a := &Answer{}
	return a, c.rpc.Call(service+".Call", q, a)
}

// New builds a scheduler of an empty cluster.
func (c *Client) New(config []byte) (*Scheduler, error) {
	a, err := c.call(Question{Method: "New", Config: config})
	if err != nil {
		return nil, err
	}
	return &Scheduler{client: c, number: a.Scheduler}, nil
}

// Scheduler has the methods of an upstream.Scheduler in the server. It is not safe for
// concurrent use.
type Scheduler struct {
	client *Client
	number int
	// err is the first error of a method that returns none. The next call returns it.
	err error
}

func (s *Scheduler) call(method string, q Question) (*Answer, error) {
	if s.err != nil {
		return &Answer{}, s.err
	}
	q.Scheduler, q.Method = s.number, method
	return s.client.call(q)
}

func (s *Scheduler) do(method string, q Question) error {
	_, err := s.call(method, q)
	return err
}

// later is do for methods without an error.
func (s *Scheduler) later(method string, q Question) {
	if err := s.do(method, q); err != nil && s.err == nil {
		s.err = err
	}
}

func of(o runtime.Object) *object { return &object{o} }

// Close removes the scheduler.
func (s *Scheduler) Close() { s.later("Close", Question{}) }

// SetNode adds or replaces a node.
func (s *Scheduler) SetNode(node *v1.Node) { s.later("SetNode", Question{Object: of(node)}) }

// RemoveNode removes a node.
func (s *Scheduler) RemoveNode(name string) error { return s.do("RemoveNode", Question{Name: name}) }

// SetPod adds or replaces a pod.
func (s *Scheduler) SetPod(pod *v1.Pod) error { return s.do("SetPod", Question{Object: of(pod)}) }

// RemovePod removes a pod.
func (s *Scheduler) RemovePod(namespace, name string) error {
	return s.do("RemovePod", Question{Namespace: namespace, Name: name})
}

// SetObject adds or replaces an object that is neither a node nor a pod.
func (s *Scheduler) SetObject(o runtime.Object) error {
	return s.do("SetObject", Question{Object: of(o)})
}

// RemoveObject removes such an object; nil is ignored.
func (s *Scheduler) RemoveObject(o runtime.Object) error {
	if o == nil {
		return nil
	}
	return s.do("RemoveObject", Question{Object: of(o)})
}

// Assume puts a pending pod on a node.
func (s *Scheduler) Assume(pod *v1.Pod, nodeName string) error {
	return s.do("Assume", Question{Object: of(pod), Name: nodeName})
}

// Forget removes an assumed pod.
func (s *Scheduler) Forget(pod *v1.Pod) error { return s.do("Forget", Question{Object: of(pod)}) }

// Nominate nominates a pending pod to a node, or to none.
func (s *Scheduler) Nominate(pod *v1.Pod, nodeName string) error {
	return s.do("Nominate", Question{Object: of(pod), Name: nodeName})
}

// Evict records the decision to evict a pod.
func (s *Scheduler) Evict(pod *v1.Pod) { s.later("Evict", Question{Object: of(pod)}) }

// Kept records that an eviction has failed.
func (s *Scheduler) Kept(pod types.UID) { s.later("Kept", Question{UID: pod}) }

// Allocated records that the promise to a claim has become its allocation.
func (s *Scheduler) Allocated(claim types.UID) { s.later("Allocated", Question{UID: claim}) }

// Explain is Judge, and also runs each filter alone.
func (s *Scheduler) Explain(pod *v1.Pod) (*upstream.Verdict, error) {
	a, err := s.call("Explain", Question{Object: of(pod)})
	return a.Verdict, err
}

// Judge runs one scheduling cycle for a pod.
func (s *Scheduler) Judge(pod *v1.Pod) (*upstream.Verdict, error) {
	a, err := s.call("Judge", Question{Object: of(pod)})
	return a.Verdict, err
}

// Commit runs the Reserve and Permit plugins for the last judged pod.
func (s *Scheduler) Commit(nodeName string) (verdict *upstream.Verdict, calls, waits []string) {
	a, err := s.call("Commit", Question{Name: nodeName})
	if err != nil {
		s.err = err
		return &upstream.Verdict{Err: err}, nil, nil
	}
	return a.Verdict, a.Calls, a.Waits
}

// Reserve runs the Reserve plugins for the last judged pod, and returns its writes.
func (s *Scheduler) Reserve(pod *v1.Pod, nodeName string) ([]runtime.Object, error) {
	a, err := s.call("Reserve", Question{Object: of(pod), Name: nodeName})
	if err != nil {
		return nil, err
	}
	var written []runtime.Object
	for _, o := range a.Objects {
		written = append(written, o.Object)
	}
	return written, nil
}

// Nodes returns the nodes by name.
func (s *Scheduler) Nodes() []*v1.Node { return list[*v1.Node](s, "Nodes") }

// Placed returns the pods that are on nodes, assumed ones included.
func (s *Scheduler) Placed() []*v1.Pod { return list[*v1.Pod](s, "Placed") }

// Nominated returns the pending pods that are nominated to a node.
func (s *Scheduler) Nominated() []*v1.Pod { return list[*v1.Pod](s, "Nominated") }

func list[T runtime.Object](s *Scheduler, method string) []T {
	a, err := s.call(method, Question{})
	if err != nil {
		s.err = err
	}
	var all []T
	for _, o := range a.Objects {
		all = append(all, o.Object.(T))
	}
	return all
}
