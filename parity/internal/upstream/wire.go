package upstream

import (
	"encoding/json"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plain is a Verdict without methods.
type plain Verdict

// written is a Verdict in JSON. Errors are written as their texts.
type written struct {
	*plain
	Err  *string  `json:",omitempty"`
	Errs []string `json:",omitempty"`
}

// MarshalJSON writes the verdict. Of the victims, it writes only the fields that Best and
// VictimNames read.
func (v *Verdict) MarshalJSON() ([]byte, error) {
	whole := plain(*v)
	w := written{plain: &whole}
	if v.Err != nil {
		text := v.Err.Error()
		w.Err = &text
	}
	for _, err := range v.Errs {
		w.Errs = append(w.Errs, err.Error())
	}
	if v.Preemption != nil {
		p := *v.Preemption
		p.Candidates = slices.Clone(p.Candidates)
		for i := range p.Candidates {
			c := &p.Candidates[i]
			c.Victims = slices.Clone(c.Victims)
			for j, victim := range c.Victims {
				c.Victims[j] = essential(victim)
			}
		}
		whole.Preemption = &p
	}
	return json.Marshal(w)
}

// essential returns the fields by which victims are compared.
func essential(p *v1.Pod) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Spec:       v1.PodSpec{Priority: p.Spec.Priority},
		Status:     v1.PodStatus{StartTime: p.Status.StartTime},
	}
}

// UnmarshalJSON reads a written verdict. ErrNoNodes keeps its identity.
func (v *Verdict) UnmarshalJSON(data []byte) error {
	whole := plain{}
	w := written{plain: &whole}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*v = Verdict(whole)
	if w.Err != nil {
		v.Err = read(*w.Err)
	}
	for _, text := range w.Errs {
		v.Errs = append(v.Errs, read(text))
	}
	return nil
}

func read(text string) error {
	if text == ErrNoNodes.Error() {
		return ErrNoNodes
	}
	return errors.New(text)
}
