package recording

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// message builds a protobuf message. Fields with their zero value are left out.
type message []byte

func (m *message) text(n protowire.Number, text string) { m.bytes(n, []byte(text)) }

func (m *message) bytes(n protowire.Number, data []byte) {
	if len(data) > 0 {
		*m = protowire.AppendBytes(protowire.AppendTag(*m, n, protowire.BytesType), data)
	}
}

func (m *message) number(n protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, n, protowire.VarintType), v)
	}
}

func (m *message) flag(n protowire.Number, set bool) {
	if set {
		m.number(n, 1)
	}
}

func (m *message) texts(n protowire.Number, all []string) {
	for _, text := range all {
		*m = protowire.AppendString(protowire.AppendTag(*m, n, protowire.BytesType), text)
	}
}

func (m *message) time(n protowire.Number, at time.Time) {
	m.number(n, protowire.EncodeZigZag(at.UnixNano()))
}

// appendEntry appends an entry of a file.
func appendEntry(to []byte, kind protowire.Number, m message) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, kind, protowire.BytesType), m)
}

// field is a field of a message.
type field struct {
	number protowire.Number
	value  uint64
	data   []byte
}

func (f *field) text() string    { return string(f.data) }
func (f *field) time() time.Time { return time.Unix(0, protowire.DecodeZigZag(f.value)).UTC() }

// errCut means that a message ends too early.
var errCut = errors.New("the data is not a message of a recording")

// eachField calls f for the fields of a message, in order.
func eachField(data []byte, f func(*field)) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errCut
		}
		data = data[n:]
		of := field{number: number}
		switch kind {
		case protowire.VarintType:
			of.value, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			of.data, n = protowire.ConsumeBytes(data)
		default:
			n = -1
		}
		if n < 0 {
			return errCut
		}
		data = data[n:]
		f(&of)
	}
	return nil
}

func (h *Header) encode() (m message) {
	m.number(1, h.Format)
	m.text(2, h.Berth)
	m.text(3, h.Release)
	m.bytes(4, h.Config)
	for _, name := range slices.Sorted(maps.Keys(h.Gates)) {
		var gate message
		gate.text(1, name)
		gate.flag(2, h.Gates[name])
		m.bytes(5, gate)
	}
	m.number(6, h.Seed)
	m.number(7, uint64(h.MaxParked))
	m.number(8, uint64(h.GroupPatience))
	m.number(9, uint64(h.GroupRetries))
	m.number(10, uint64(h.WakeSlice))
	return m
}

func (h *Header) decode(data []byte) error {
	h.Gates = map[string]bool{}
	var nested error
	err := eachField(data, func(f *field) {
		switch f.number {
		case 1:
			h.Format = f.value
		case 2:
			h.Berth = f.text()
		case 3:
			h.Release = f.text()
		case 4:
			h.Config = slices.Clone(f.data)
		case 5:
			name, on := "", false
			nested = errors.Join(nested, eachField(f.data, func(f *field) {
				switch f.number {
				case 1:
					name = f.text()
				case 2:
					on = f.value != 0
				}
			}))
			h.Gates[name] = on
		case 6:
			h.Seed = f.value
		case 7:
			h.MaxParked = time.Duration(f.value)
		case 8:
			h.GroupPatience = time.Duration(f.value)
		case 9:
			h.GroupRetries = int(f.value)
		case 10:
			h.WakeSlice = int(f.value)
		}
	})
	return errors.Join(err, nested)
}

func (r *Round) encode() (m message) {
	m.time(1, r.Now)
	if !r.Wall.Equal(r.Now) {
		m.time(2, r.Wall)
	}
	m.flag(3, r.Decides)
	return m
}

func (r *Round) decode(data []byte) error {
	err := eachField(data, func(f *field) {
		switch f.number {
		case 1:
			r.Now = f.time()
		case 2:
			r.Wall = f.time()
		case 3:
			r.Decides = f.value != 0
		}
	})
	if r.Wall.IsZero() {
		r.Wall = r.Now
	}
	return err
}

func (t *TakeOver) encode() (m message) {
	m.text(1, t.Leader)
	m.time(2, t.Now)
	return m
}

func (t *TakeOver) decode(data []byte) error {
	return eachField(data, func(f *field) {
		switch f.number {
		case 1:
			t.Leader = f.text()
		case 2:
			t.Now = f.time()
		}
	})
}

func (g *Gap) encode() (m message) {
	m.text(1, g.Reason)
	return m
}

func (g *Gap) decode(data []byte) error {
	return eachField(data, func(f *field) { g.Reason = f.text() })
}

func (d *Decision) encode() (m message) {
	m.text(1, d.Pod)
	m.text(2, d.UID)
	m.text(3, d.Group)
	m.text(4, d.Outcome)
	m.text(5, d.Node)
	m.text(6, d.Nominated)
	m.texts(7, d.Victims)
	m.text(8, d.Message)
	return m
}

func (d *Decision) decode(data []byte) error {
	return eachField(data, func(f *field) {
		switch f.number {
		case 1:
			d.Pod = f.text()
		case 2:
			d.UID = f.text()
		case 3:
			d.Group = f.text()
		case 4:
			d.Outcome = f.text()
		case 5:
			d.Node = f.text()
		case 6:
			d.Nominated = f.text()
		case 7:
			d.Victims = append(d.Victims, f.text())
		case 8:
			d.Message = f.text()
		}
	})
}

// changeNumbers are the numbers of kinds of change in files. They never change their
// meaning.
var changeNumbers = map[model.ChangeKind]uint64{
	model.PodSet: 1, model.PodGone: 2, model.NodeSet: 3, model.NodeGone: 4, model.ObjectSet: 5, model.ObjectGone: 6,
	model.BindDone: 7, model.PreemptionDone: 8, model.WriteDone: 9, model.PodUndecided: 10,
}

var changeKinds = func() map[uint64]model.ChangeKind {
	all := map[uint64]model.ChangeKind{}
	for kind, number := range changeNumbers {
		all[number] = kind
	}
	return all
}()

// kindNames are the names of the kinds of object in files: their resources.
var kindNames = func() map[string]model.Kind {
	all := map[string]model.Kind{}
	for kind := range model.KindCount {
		all[kinds.Get(model.Kind(kind)).Resource.GroupResource().String()] = model.Kind(kind)
	}
	return all
}()

func (c *Change) encode() (m message) {
	m.number(1, changeNumbers[c.Kind])
	if c.Kind != model.PodUndecided {
		m.text(2, kinds.Get(c.Ref.Kind).Resource.GroupResource().String())
	}
	m.text(3, c.Ref.Namespace)
	m.text(4, c.Ref.Name)
	m.text(5, c.UID)
	m.bytes(6, c.Object)
	m.flag(7, c.WasNominated)
	m.flag(8, c.Learned)
	m.text(9, c.Node)
	m.flag(10, c.Failed)
	m.text(11, c.Err)
	m.texts(12, c.Rejectors)
	m.texts(13, c.Victims)
	m.texts(14, c.Kept)
	m.flag(15, c.InMemory)
	m.text(16, c.Tree.Namespace)
	m.text(17, c.Tree.Name)
	m.flag(18, c.Deleted)
	m.number(19, c.Decisions)
	m.text(20, c.Version)
	return m
}

func (c *Change) decode(data []byte) error {
	kind, resource := uint64(0), ""
	err := eachField(data, func(f *field) {
		switch f.number {
		case 1:
			kind = f.value
		case 2:
			resource = f.text()
		case 3:
			c.Ref.Namespace = f.text()
		case 4:
			c.Ref.Name = f.text()
		case 5:
			c.UID = f.text()
		case 6:
			c.Object = slices.Clone(f.data)
		case 7:
			c.WasNominated = f.value != 0
		case 8:
			c.Learned = f.value != 0
		case 9:
			c.Node = f.text()
		case 10:
			c.Failed = f.value != 0
		case 11:
			c.Err = f.text()
		case 12:
			c.Rejectors = append(c.Rejectors, f.text())
		case 13:
			c.Victims = append(c.Victims, f.text())
		case 14:
			c.Kept = append(c.Kept, f.text())
		case 15:
			c.InMemory = f.value != 0
		case 16:
			c.Tree.Namespace = f.text()
		case 17:
			c.Tree.Name = f.text()
		case 18:
			c.Deleted = f.value != 0
		case 19:
			c.Decisions = f.value
		case 20:
			c.Version = f.text()
		}
	})
	if err != nil {
		return err
	}
	var known bool
	if c.Kind, known = changeKinds[kind]; !known {
		return fmt.Errorf("a change of the unknown kind %d", kind)
	}
	if c.Ref.Kind, known = kindNames[resource]; !known && c.Kind != model.PodUndecided {
		return fmt.Errorf("a change of the unknown resource %q", resource)
	}
	return nil
}
