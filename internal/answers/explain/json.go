package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MarshalJSON returns the object that WriteJSON writes.
func (a *Explanation) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := a.WriteJSON(&b)
	return b.Bytes(), err
}

// WriteJSON writes the explanation as one object. Each node is on a line of its own, so
// output can be searched and compared by line, and is never in memory as a whole. The
// last line has no newline.
func (a *Explanation) WriteJSON(w io.Writer) error {
	t := jsonText{w: w}
	t.encoder = json.NewEncoder(&t.buffer)
	t.encoder.SetEscapeHTML(false)
	t.add(`{"pod":`, a.Pod)
	t.add(`,"profile":`, a.Profile)
	separator := `,"nodes":[` + "\n"
	for i := range a.Nodes {
		t.add(separator, &a.Nodes[i])
		separator = ",\n"
	}
	if len(a.Nodes) == 0 {
		t.add(`,"nodes":`, []Node{})
	} else {
		t.text("\n]")
	}
	for _, field := range []struct{ name, value string }{
		{"message", a.Message}, {"postFilterMessage", a.PostFilterMessage}, {"gated", a.Gated}, {"error", a.Error},
	} {
		if field.value != "" {
			t.add(`,"`+field.name+`":`, field.value)
		}
	}
	if a.Preemption != nil {
		t.add(`,"preemption":`, a.Preemption)
	}
	if a.PodGroup != "" {
		t.add(`,"podGroup":`, a.PodGroup)
	}
	if a.Group != nil {
		t.add(`,"group":`, a.Group)
	}
	if a.Advice != nil {
		t.add(`,"advice":`, a.Advice)
	}
	if a.Decision != nil {
		t.add(`,"decision":`, a.Decision)
	}
	if a.History != nil {
		t.add(`,"history":`, a.History)
	}
	t.text("}")
	if t.err != nil {
		return fmt.Errorf("write the answer for pod %s: %w", a.Pod, t.err)
	}
	return nil
}

// jsonText writes values with text between them, until the first error.
type jsonText struct {
	w       io.Writer
	buffer  bytes.Buffer
	encoder *json.Encoder // writes to buffer
	err     error
}

func (t *jsonText) text(s string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.w, s)
	}
}

// add writes the text, then the value.
func (t *jsonText) add(text string, value any) {
	t.text(text)
	if t.err != nil {
		return
	}
	t.buffer.Reset()
	if t.err = t.encoder.Encode(value); t.err == nil {
		_, t.err = t.w.Write(bytes.TrimSuffix(t.buffer.Bytes(), []byte("\n")))
	}
}
