package recording

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Format is the version of the format. A reader accepts this version alone.
const Format = 1

// An entry is a field of a message that never ends: its number is the type of the entry,
// its value a message.
const (
	headerEntry   protowire.Number = 1
	roundEntry    protowire.Number = 2
	changeEntry   protowire.Number = 3
	decisionEntry protowire.Number = 4
	takeoverEntry protowire.Number = 5
	gapEntry      protowire.Number = 6
)

// Header is the first entry of a file: what decisions depend on besides the inputs.
type Header struct {
	Format uint64
	// Berth is the version of the program, Release the Kubernetes release that it
	// follows.
	Berth, Release string
	// Config is the configuration with its defaults, as YAML and without secrets.
	Config []byte
	// Gates are the feature gates that differ from their defaults.
	Gates map[string]bool
	// The other fields are flags.
	Seed                     uint64
	MaxParked, GroupPatience time.Duration
	GroupRetries             int
	// WakeSlice is queue.Config.Slice.
	WakeSlice int
}

// Round begins a round of the loop, with the times of its clocks.
type Round struct {
	Now, Wall time.Time
	// Decides is false for the rounds of a replica that does not lead.
	Decides bool
}

// TakeOver is the point at which the process takes over from an earlier leader.
type TakeOver struct {
	Leader string
	Now    time.Time
}

// Gap ends a recording that is not complete.
type Gap struct{ Reason string }

// Decision is the decision about one pod. A group's has one for each member.
type Decision struct {
	Pod string `json:"pod"` // NAMESPACE/NAME
	UID string `json:"uid"`
	// Group is NAMESPACE/NAME of the pod group that the pod was decided about with.
	Group     string   `json:"group,omitempty"`
	Outcome   string   `json:"outcome"`
	Node      string   `json:"node,omitempty"`      // of a placement
	Nominated string   `json:"nominated,omitempty"` // node that the pod is nominated to
	Victims   []string `json:"victims,omitempty"`   // pods to evict, sorted
	Message   string   `json:"message,omitempty"`   // why it has no node
}

// DecisionOf returns the recorded part of a decision.
func DecisionOf(a *plan.Attempt, d *plan.Decision) Decision {
	of := Decision{Pod: d.Pod.Key().String(), UID: string(d.Pod.UID), Outcome: d.Outcome.String()}
	if a.Group != nil {
		of.Group = a.Group.Key.String()
	}
	if d.Outcome == plan.Placed {
		of.Node = d.Placement.NodeName
	}
	if n := d.NominationOf(d.Pod); n.Mode == plan.Set {
		of.Nominated = n.NodeName
	}
	for i := range d.Evictions {
		of.Victims = append(of.Victims, d.Evictions[i].Pod.Key().String())
	}
	slices.Sort(of.Victims)
	switch {
	case d.Err != nil:
		of.Message = d.Err.Error()
	case d.Rejection != nil:
		of.Message = strings.TrimSpace(d.Rejection.Text(d.Nodes) + " " + d.PostFilter)
	}
	return of
}

// Equal reports whether two decisions are the same.
func (d *Decision) Equal(other *Decision) bool {
	return d.Pod == other.Pod && d.UID == other.UID && d.Group == other.Group && d.Outcome == other.Outcome &&
		d.Node == other.Node && d.Nominated == other.Nominated && slices.Equal(d.Victims, other.Victims) && d.Message == other.Message
}

// String returns the decision in words.
func (d *Decision) String() string {
	text := d.Pod + " " + d.Outcome
	if d.Node != "" {
		text += " on " + d.Node
	}
	if d.Nominated != "" {
		text += ", nominated to " + d.Nominated
	}
	if len(d.Victims) > 0 {
		text += ", evicts " + strings.Join(d.Victims, ", ")
	}
	if d.Message != "" {
		text += ": " + d.Message
	}
	return text
}

// Change is one model.Change in a form that can be stored: the object as the watch showed
// it, and names instead of pointers to other parts of the loop.
type Change struct {
	Kind model.ChangeKind
	// Ref is the object of a change; its kind is stored as the name of the resource.
	Ref model.Ref
	UID string
	// Object is the trimmed object, encoded.
	Object                []byte
	WasNominated, Learned bool
	// Node, Err and Rejectors are the result of a binding, Err also of a preemption.
	Node, Err string
	Failed    bool
	Rejectors []string
	// Victims and Kept are UIDs, of a preemption.
	Victims, Kept []string
	InMemory      bool
	Tree          model.GroupKey
	// Deleted, Decisions and Version are of a write that released an object.
	Deleted   bool
	Decisions uint64
	Version   string
}

// marshaler is an object of the Kubernetes API, which all have this method.
type marshaler interface{ Marshal() ([]byte, error) }

// changeOf returns the stored form of a change.
func changeOf(c *model.Change) (of Change, err error) {
	of = Change{Kind: c.Kind, WasNominated: c.WasNominated, Learned: c.Learned}
	var object runtime.Object
	switch c.Kind {
	case model.PodSet:
		of.Ref, object = podRef(c.Pod.Key()), c.Pod.Object
	case model.PodGone:
		of.Ref = podRef(c.Key)
	case model.NodeSet:
		of.Ref, object = model.Ref{Kind: model.NodeKind, Name: c.Node.Name}, c.Node.Object
	case model.NodeGone:
		of.Ref = model.Ref{Kind: model.NodeKind, Name: c.Name}
	case model.ObjectSet:
		ref, ok := kinds.RefOf(c.Object)
		if !ok {
			return of, fmt.Errorf("an object of type %T cannot be recorded", c.Object)
		}
		of.Ref, object = ref, c.Object
	case model.ObjectGone:
		of.Ref = c.Ref
	case model.BindDone:
		of.Ref, of.UID, of.Node, of.Rejectors = podRef(c.Bind.Pod.Key()), string(c.Bind.Pod.UID), c.Bind.NodeName, c.Bind.Rejectors
		of.Failed, of.Err = textOf(c.Bind.Err)
	case model.PreemptionDone:
		p := c.Preemption
		of.Ref, of.UID, of.InMemory, of.Tree = podRef(p.Preemptor.Key()), string(p.Preemptor.UID), p.InMemory, p.Tree
		of.Victims, of.Kept = uidsOf(p.Victims), uidsOf(p.Kept)
		of.Failed, of.Err = textOf(p.Err)
	case model.WriteDone:
		w := c.Write
		of.Ref, of.UID, of.Version, of.Deleted, of.Decisions = w.Object.Ref(), string(w.Object.UID()), w.Object.Version(), w.Deleted, uint64(w.Decisions)
	case model.PodUndecided:
		of.UID = string(c.UID)
	default:
		return of, fmt.Errorf("a change of kind %d cannot be recorded", c.Kind)
	}
	if object != nil {
		of.Object, err = encoded(object)
	}
	return of, err
}

// encoded returns the protobuf of an object. Encoding an amount writes its text into the
// object, which the loop reads meanwhile, so a copy is encoded. Amounts in maps are
// copied anyway, and a pod without volumes and a node have no others.
func encoded(object runtime.Object) ([]byte, error) {
	switch o := object.(type) {
	case *v1.Node:
	case *v1.Pod:
		if len(o.Spec.Volumes) > 0 {
			object = o.DeepCopy()
		}
	default:
		object = object.DeepCopyObject()
	}
	m, ok := object.(marshaler)
	if !ok {
		return nil, fmt.Errorf("an object of type %T cannot be recorded", object)
	}
	return m.Marshal()
}

func podRef(key model.PodKey) model.Ref {
	return model.Ref{Kind: model.PodKind, Namespace: key.Namespace, Name: key.Name}
}

func textOf(err error) (failed bool, text string) {
	if err == nil {
		return false, ""
	}
	return true, err.Error()
}

func uidsOf(pods []*model.Pod) (uids []string) {
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
	}
	return uids
}

// err returns the error of a result.
func (c *Change) err() error {
	if !c.Failed {
		return nil
	}
	return errors.New(c.Err)
}

func (c *Change) uid() types.UID { return types.UID(c.UID) }
