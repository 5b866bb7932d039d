package plugin

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// TestNewNamesEachPart sets every part of a plugin.
func TestNewNamesEachPart(t *testing.T) {
	var all Parts
	parts := reflect.ValueOf(&all).Elem()
	for i := range parts.NumField() {
		if field := parts.Field(i); field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
		}
	}
	all.Name = "Mine"
	made := reflect.ValueOf(New(all)).Elem()
	for i := range made.NumField() {
		field := made.Field(i)
		if field.Kind() != reflect.Pointer {
			continue
		}
		if name := field.Elem().FieldByName("Name").String(); name != "Mine" {
			t.Errorf("%s is called %q", made.Type().Field(i).Name, name)
		}
	}
}

// TestNewAddsWhatFiltersRead: kinds and events of the filter's inputs are added, unless
// the plugin declares them.
func TestNewAddsWhatFiltersRead(t *testing.T) {
	reads := Reads{Nodes: model.Taints, Objects: []model.Kind{model.NamespaceKind}}
	hint := func(*model.Pod, model.Event) bool { return true }
	taints := model.EventToRegister{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeTaint, Hint: hint}
	for name, row := range map[string]struct {
		parts   Parts
		objects []model.Kind
		events  string
	}{
		"neither": {
			Parts{Filter: &Filter{Reads: reads}}, []model.Kind{model.NamespaceKind},
			"NodeAdd NodeUpdateNodeTaint NamespaceUpdate NamespaceAdd NamespaceDelete",
		},
		"an event": {
			Parts{Filter: &Filter{Reads: reads}, EnqueueExtensions: &EnqueueExtensions{Events: []model.EventToRegister{taints}}},
			[]model.Kind{model.NamespaceKind}, "NodeAdd? NodeUpdateNodeTaint? NamespaceUpdate NamespaceAdd NamespaceDelete",
		},
		"kinds": {
			Parts{Filter: &Filter{Reads: reads}, Objects: []model.Kind{model.ServiceKind, model.NamespaceKind}},
			[]model.Kind{model.ServiceKind, model.NamespaceKind}, "NodeAdd NodeUpdateNodeTaint NamespaceUpdate NamespaceAdd NamespaceDelete",
		},
		"no filter":     {Parts{EnqueueExtensions: &EnqueueExtensions{Events: []model.EventToRegister{taints}}}, nil, "NodeAdd? NodeUpdateNodeTaint?"},
		"no inputs":     {Parts{Filter: &Filter{}}, nil, "NodeAdd"},
		"a turn filter": {Parts{Filter: turnFilter()}, nil, ""},
	} {
		p := New(row.parts)
		if !slices.Equal(p.Objects, row.objects) {
			t.Errorf("%s: kinds %v, want %v", name, p.Objects, row.objects)
		}
		var got []string
		if p.EnqueueExtensions != nil {
			for _, r := range p.EnqueueExtensions.Events {
				for _, label := range r.Labels() {
					if r.Hint != nil {
						label += "?"
					}
					got = append(got, label)
				}
			}
		}
		if text := strings.Join(got, " "); text != row.events {
			t.Errorf("%s: events %s, want %s", name, text, row.events)
		}
	}
}

func turnFilter() *Filter {
	return &Filter{Turn: func(state.View) (TurnVerdicts, error) { return nil, nil }}
}
