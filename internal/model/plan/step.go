package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Stage is the extension point of a step. Steps run in the order of their stages.
type Stage uint8

// The stages, in order.
const (
	Reserve Stage = iota
	Permit
	PreBind
	Bind
	PostBind
)

var stageNames = [...]string{"Reserve", "Permit", "PreBind", "Bind", "PostBind"}

// String returns kube-scheduler's name of the extension point.
func (s Stage) String() string { return stageNames[s] }

// Step is an action that a plugin adds before or after the binding of a pod.
type Step struct {
	Stage  Stage
	Plugin string
	// Write, unless it is nil, is sent when the step begins.
	Write *Write
	// Call, unless it is nil, is run when the step begins, in a goroutine of its own.
	// Invariant: Write or Call is nil.
	Call Call
	// Wait, unless it is nil, begins after the response to Write or Call. The next step
	// begins when the wait ends.
	Wait *Wait
	// Undo, unless it is nil, is sent if this step or a later one fails after Write was
	// sent.
	Undo *Write
	// UndoCall, unless it is nil, is run once if this step or a later one fails, even if
	// Call failed. Its result is ignored.
	UndoCall Call
}

// Call is the code of an out-of-tree plugin in a step. Package commit defines how it is
// run: each Call is a commit.Call.
type Call interface{ IsCall() }

// Write is a patch of one object, or its deletion.
//
// A Write is sent again if the outcome is unknown, so applying it twice must change
// nothing. It must therefore contain the object's version, its UID or a name that is
// never reused. A server-side apply creates the object if it does not exist.
type Write struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	Subresource     string
	Type            types.PatchType
	Data            []byte
	// Delete means that the write is a deletion with the options Data and without a Type.
	// It succeeds if the object is already gone. The response is not passed to the loop;
	// with Learn, the request is repeated until it is answered.
	Delete bool
	// Latest replaces older writes: if several decisions have Writes with Latest for one
	// object, the latest counts. It is sent when the previous write has ended, and
	// replaces a write that is still queued.
	Latest bool
	// GivesBack is the version of the object that loses an allocation or a reservation,
	// or is deleted; nil for other writes. Only a decision's Writes set it. From the
	// decision until the write has ended, no decision relies on the object. The API
	// server must reject the write if the object has changed since that version.
	GivesBack model.Compiled
	// IfAbsent, unless it is nil, names an object that must not exist; its other fields
	// are ignored. The object is read first, and if it exists, the write is not sent.
	// Only a decision's Writes use it; steps ignore it.
	IfAbsent *Write
	// Learn passes the object in the response to the loop at once, like an update from
	// the watch. The loop gets it before the result of the binding. It is for objects
	// that reach the state compiled.
	//
	// A write with Learn is not given up while its outcome is unknown. Otherwise the
	// holds of the placement would be released although the write may be stored.
	Learn bool
	// Stored, unless it is nil, reports whether an object, as cached by the scheduler,
	// shows that the write was stored. An earlier try whose response was lost can cause a
	// later try to fail with 409 or 422. The object is then read, and the write has
	// succeeded if Stored returns true.
	Stored func(object metav1.Object) bool
}

// Wait delays a placement until its plugin reports that the wait is over.
type Wait struct {
	// Timeout limits the wait. After it the step fails with Err, or with a text that
	// names the timeout if Err is nil. As in kube-scheduler, the timeouts of all Permit
	// steps begin with the binding.
	Timeout time.Duration
	Err     error
	// Event, unless it is nil, is recorded about the pod when the wait begins.
	Event *PodEvent
	// For are the objects whose changes may end the wait.
	For []model.Ref
	// Devices are the devices of the pod's claims, if the wait is for some of them. They
	// are only used for metrics.
	Devices []Device
}

// Device is a device allocated to a pod's claim. Awaited means that the binding waits for
// the device.
type Device struct {
	Driver  string
	Awaited bool
}

// PodEvent is a normal event about a pod, with the fields of events.k8s.io/v1.
type PodEvent struct{ Reason, Action, Note string }
