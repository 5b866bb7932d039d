package devicefit

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// Edit is a change of a request with which a device of the node would pass a check.
type Edit struct {
	// Tolerated are the taints that the request is to tolerate. Without any, From are the
	// parts of its selectors that are false for the device, and To the same parts with
	// the device's values. To is nil if a part compares nothing with a literal.
	Tolerated []resourcev1.DeviceTaint
	From, To  []string

	index     int // of the request
	selectors []resourcev1.DeviceSelector
	dropped   []resourcev1.DeviceSelector
}

// Tolerate makes the request tolerate the taints.
func (e *Edit) Tolerate(claim *resourcev1.DeviceClaim) {
	r := claim.Requests[e.index].Exactly
	for i := range e.Tolerated {
		t := &e.Tolerated[i]
		r.Tolerations = append(r.Tolerations, resourcev1.DeviceToleration{Key: t.Key, Operator: resourcev1.DeviceTolerationOpEqual, Value: t.Value, Effect: t.Effect})
	}
}

// Correct replaces the parts From by To in the selectors of the request.
func (e *Edit) Correct(claim *resourcev1.DeviceClaim) {
	claim.Requests[e.index].Exactly.Selectors = e.selectors
}

// Drop drops the parts From from the selectors of the request.
func (e *Edit) Drop(claim *resourcev1.DeviceClaim) {
	claim.Requests[e.index].Exactly.Selectors = e.dropped
}

// Index returns the position of the edited request in its claim.
func (e *Edit) Index() int { return e.index }

// Edits returns the edits for the refused devices of a request, at most one for devices
// that lack the same. Alternatives of a request have none.
func (x *Examiner) Edits(r *Request) (all []Edit) {
	if r.spec == nil || r.spec.exactly < 0 {
		return nil
	}
	for _, d := range r.refused {
		switch d.by {
		case taint:
			e := Edit{index: r.spec.exactly}
			for i := range d.spec.Taints {
				if t := d.spec.Taints[i]; blocks(r.spec, &t) {
					t.TimeAdded = nil
					e.Tolerated = append(e.Tolerated, t)
				}
			}
			count := len(r.spec.tolerations) + len(e.Tolerated)
			if count <= resourcev1.DeviceTolerationsMaxLength {
				all = append(all, e)
			}
		case selector:
			if e, ok := x.correction(r, d); ok {
				all = append(all, e)
			}
		}
	}
	return all
}

// correction returns the edit of the selectors that refuse a device.
func (x *Examiner) correction(r *Request, d *device) (e Edit, ok bool) {
	e.index = r.spec.exactly
	correctable := true
	for i := range r.spec.selectors {
		s := r.spec.selectors[i]
		if s.CEL == nil {
			return e, false
		}
		parts, ok := x.partsOf(s.CEL.Expression)
		if !ok {
			return e, false
		}
		corrected, kept := slices.Clone(parts), parts[:0:0]
		for j := range parts {
			// A part that fails, such as one behind has(), is dropped too.
			if is, _ := x.evaluate(parts[j].text, d); is {
				kept = append(kept, parts[j])
				continue
			}
			e.From = append(e.From, parts[j].text)
			if text := parts[j].corrected(d); text != "" {
				corrected[j].text = text
				e.To = append(e.To, text)
			} else {
				correctable = false
			}
		}
		e.selectors = append(e.selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: joined(corrected)}})
		if len(kept) > 0 {
			e.dropped = append(e.dropped, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: joined(kept)}})
		}
	}
	if !correctable {
		e.To = nil
	}
	return e, len(e.From) > 0
}

// corrected returns a comparison with the device's value instead of its literal, or "".
func (p *part) corrected(d *device) string {
	if p.expr == nil {
		return ""
	}
	for _, f := range fieldsIn(p.expr) {
		if f.of != "attributes" || f.comparedWith(p.expr) == nil {
			continue
		}
		a, ok := f.attribute(d)
		text, err := unparsed(f.expr, p.info)
		if value := literalOf(&a); ok && err == nil && value != "" {
			return text + " == " + value
		}
	}
	return ""
}
