package nodevolumelimits

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// The hints below are for objects that identify the volume of a claim, or its driver.

// Kinds of keys.
const (
	volumeKey = "volume" // the volume of one of the pod's claims
	classKey  = "class"  // the class of one of the pod's claims
	handleKey = "handle" // a volume of the pod, by driver and handle
	driverKey = "driver" // the driver of a volume of the pod
	anyKey    = "any"    // volumes of any driver
)

// AskedIn returns the volumes and classes of the pod's claims, and the handles of its
// volumes. An update of a claim wakes the pod by another registration.
func (*Plugin) AskedIn(v state.View, pod *model.Pod) model.Need {
	if pod.Volumes == nil {
		return model.Need{}
	}
	var names []string
	for i := range pod.Volumes.Claims {
		claim := v.Storage().Claim(pod.Volumes.Claims[i].Key)
		if claim == nil {
			continue
		}
		names = append(names, classKey+" "+claim.Class)
		if claim.Object.Spec.VolumeName != "" {
			names = append(names, volumeKey+" "+claim.Object.Spec.VolumeName)
		}
	}
	eachHandle(pod, v.State().Attachable, func(driver, handle string) {
		names = append(names, handleKey+" "+keyOfHandle(driver, handle).Name)
	})
	if len(names) == 0 {
		return model.Need{}
	}
	slices.Sort(names)
	return model.NeedOf(strings.Join(slices.Compact(names), "\n"))
}

// asking registers for objects that identify the volumes of claims. These can be claims
// of the waiting pod or of placed pods.
func asking(resource model.EventResource) model.EventToRegister {
	return model.EventToRegister{
		Resource: resource, Actions: model.AllActions,
		Asked: &model.AskedHint{Hint: identifies, Cause: causeOfAsked}, Touches: touchesIdentity,
	}
}

func identifies(asked model.Need, e model.Event) bool {
	var touch model.Touch
	touchesIdentity(e, &touch)
	return slices.ContainsFunc(keysOf(asked), func(key model.Key) bool { return slices.Contains(touch.Has, key) })
}

// keysOf returns the keys of AskedIn. The driver is the first word of a handle's key.
func keysOf(asked model.Need) (keys model.Clause) {
	keys = append(keys, model.Key{Kind: anyKey})
	if asked == (model.Need{}) {
		return keys
	}
	for line := range strings.Lines(asked.String()) {
		kind, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		keys = append(keys, model.Key{Kind: kind, Name: name})
		if kind != handleKey {
			continue
		}
		driver, _, _ := strings.Cut(name, " ")
		if key := (model.Key{Kind: driverKey, Name: driver}); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// keyOf returns the key of an event's object. Claims have none: the pod's claims have a
// registration of their own.
func keyOf(e model.Event) (key model.Key, ok bool) {
	object := e.Object
	if object == nil {
		object = e.OldObject
	}
	switch o := object.(type) {
	case *model.Volume:
		return model.Key{Kind: volumeKey, Name: o.Name}, true
	case *model.StorageClass:
		return model.Key{Kind: classKey, Name: o.Name}, true
	}
	return model.Key{}, false
}

func causeOfAsked(asked model.Need) model.Cause {
	return model.Cause{Wants: []model.Way{{keysOf(asked)}}}
}

func touchesIdentity(e model.Event, to *model.Touch) {
	if key, ok := keyOf(e); ok {
		to.Has = append(to.Has, key)
	}
	change := e.Volumes
	if change == nil {
		return
	}
	if change.Any {
		to.Has = append(to.Has, model.Key{Kind: anyKey})
	}
	for _, driver := range change.Room {
		to.Has = append(to.Has, model.Key{Kind: driverKey, Name: driver})
	}
	for _, v := range change.Came {
		to.Has = append(to.Has, keyOfHandle(v.Driver, v.Handle))
	}
}

// keyOfHandle quotes the handle, which can have any characters: AskedIn returns lines.
func keyOfHandle(driver, handle string) model.Key {
	return model.Key{Kind: handleKey, Name: driver + " " + strconv.Quote(handle)}
}

// sharesVolume reports whether a pod with a volume of the waiting pod was placed. The
// volume then needs no further attachment on that node.
func sharesVolume(asked model.Need, e model.Event) bool {
	return slices.ContainsFunc(handlesOf(e), func(key model.Key) bool { return slices.Contains(keysOf(asked), key) })
}

func touchesHandles(e model.Event, to *model.Touch) { to.Has = append(to.Has, handlesOf(e)...) }

// handlesOf returns the keys of the volumes of the pod that came.
func handlesOf(e model.Event) (keys []model.Key) {
	if e.Pod.Volumes == nil || e.Cluster == nil {
		return nil
	}
	eachHandle(e.Pod, e.Cluster.Attachable, func(driver, handle string) {
		keys = append(keys, keyOfHandle(driver, handle))
	})
	return keys
}

// eachHandle yields the driver and the handle of each of a pod's volumes.
func eachHandle(pod *model.Pod, of func(model.ClaimKey) (driver, handle string), yield func(driver, handle string)) {
	for i := range pod.Volumes.Claims {
		if driver, handle := of(pod.Volumes.Claims[i].Key); driver != "" {
			yield(driver, handle)
		}
	}
	for i := range pod.Volumes.Inline {
		if v := &pod.Volumes.Inline[i]; v.Err == nil {
			yield(v.Driver, v.Handle)
		}
	}
}
