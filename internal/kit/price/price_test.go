package price

import (
	"math"
	"testing"
)

// TestMeter checks the cost of a turn, when its budget is used up, and that work aside is
// not counted.
func TestMeter(t *testing.T) {
	var m Meter
	m.Spend(Nodes, 5)
	if m.IsOver() || m.Left() != math.MaxInt64 {
		t.Errorf("outside of a turn: over %t, %d units left", m.IsOver(), m.Left())
	}
	m.Begin(10)
	m.Spend(Counts, 4)
	end := m.Aside()
	m.Spend(Devices, 1000)
	if m.IsOver() {
		t.Error("work aside is over budget")
	}
	end()
	if m.IsOver() || m.Left() != 6 {
		t.Errorf("after 4 of 10 units: over %t, %d units left", m.IsOver(), m.Left())
	}
	m.Spend(Nodes, 6)
	resume := m.Lift()
	if m.IsOver() {
		t.Error("a budget that was lifted is used up")
	}
	resume()
	if !m.IsOver() || m.Left() != 0 {
		t.Errorf("after 10 of 10 units: over %t, %d units left", m.IsOver(), m.Left())
	}
	bill := m.End()
	if bill.Total() != 10 || bill.Most() != Nodes || bill[Counts] != 4 || m.Total() != 15 {
		t.Errorf("the turn cost %v, most of it %s; all work cost %d", bill, bill.Most(), m.Total())
	}
	if m.IsOver() {
		t.Error("the budget outlasts its turn")
	}
	m.Begin(0)
	m.Spend(Victims, 1<<40)
	if m.IsOver() {
		t.Error("a turn without a budget is over it")
	}
}
