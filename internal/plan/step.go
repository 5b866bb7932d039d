package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Stage is the extension point that a step belongs to. Steps are done in the order of their stages.
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

// Step is one thing that a plugin has done between a decision and its end.
type Step struct {
	Stage  Stage
	Plugin string
	// Write is sent when the step begins; nil if there is nothing to send.
	Write *Write
	// Call is run when the step begins, on a goroutine of its own: a commit.Call of a plugin from outside; nil if there is nothing to run. A step has at
	// most one of Write and Call.
	Call any
	// Wait is what must happen, after Write or Call was answered, before the next step begins; nil if nothing.
	Wait *Wait
	// Undo is sent when this step or a later one fails after Write was sent; nil if there is nothing to undo.
	Undo *Write
	// UndoCall is run, once, when this step or a later one fails, also if Call failed; nil if there is nothing to undo. Its result is ignored.
	UndoCall any
}

// Write is a patch of one object, or its deletion. It is sent again when its outcome is unknown, so it must name the version or the UID of the object that
// it applies to, or a name that no other object ever has, and applying it a second time must change nothing. A server-side apply makes the object if there is
// none.
type Write struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	Subresource     string
	Type            types.PatchType
	Data            []byte
	// Delete makes it a deletion. Data are the options; there is no type. An object that is gone already is deleted. Nothing is learned of its answer, but with
	// Learn it is sent until it is answered.
	Delete bool
	// Latest means that of several such writes to one object, made by decisions, the latest counts: it is sent when the one before has ended, and replaces one that
	// waits for that.
	Latest bool
	// GivesBack is the version of the object from which a write of a decision takes an
	// allocation or a reservation, or which it deletes; nil for other writes. From the
	// decision until the write has ended no decision relies on the object. Such a write
	// must be refused if the object has changed meanwhile.
	GivesBack model.Compiled
	// IfAbsent, unless it is nil, names an object that must not exist; nothing else of it
	// counts. The API server is asked first. If the object exists, the write of a decision
	// is not sent. Steps ignore it.
	IfAbsent *Write
	// Learn gives the object that the API server answers with to the loop at once, like a version that the watch shows, and before anything else comes of the
	// answer: when the binding's result is known, so is what was written. It is for objects that reach the state compiled. While it is open whether such a
	// write was stored, it is not given up: what is stored must not stay unknown while the holds of the placement are released.
	Learn bool
	// Stored, unless it is nil, reports whether an object, as the scheduler keeps it, shows that the write was stored. When the write is refused because the
	// object is not as it demands (409 or 422), as after an earlier try whose answer was lost, the object is read, and if Stored says so the write has
	// succeeded.
	Stored func(object metav1.Object) bool
}

// Wait is what a placement waits for. The plugin that made the step says when it is over.
type Wait struct {
	// Timeout is how long the wait may take; the step fails then, with Err, or if that is nil with a text that names the timeout.
	Timeout time.Duration
	Err     error
	// Event, unless it is nil, is an event about the pod, which the wait begins with.
	Event *PodEvent
	// For are the objects whose changes may end the wait.
	For []model.Ref
	// Devices are the devices of the pod's claims, where the wait is for some of them. Nothing depends on them; they are for whoever counts.
	Devices []Device
}

// Device is one device that is allocated to a pod's claim. Awaited says that the binding waits for it.
type Device struct {
	Driver  string
	Awaited bool
}

// PodEvent is a normal event about a pod, in the terms of events.k8s.io/v1.
type PodEvent struct{ Reason, Action, Note string }
