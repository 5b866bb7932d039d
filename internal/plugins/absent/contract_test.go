package absent

import (
	"errors"
	"reflect"
	"testing"

	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/plugintest"
)

func TestContract(t *testing.T) {
	p, err := New("GangScheduling")
	if err != nil {
		t.Fatal(err)
	}
	plugintest.CheckContract(t, p, plugintest.Contract{Name: "GangScheduling", Events: []string{"TargetPodUpdate, hint"}})
	plugintest.CheckContract(t, NewPostFilter(), plugintest.Contract{Name: "DynamicResources"})
	want := `plugin "Nonsense" is missing, and it is not known which pods need it`
	if _, err := New("Nonsense"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// preFiltered is a cycle of which only this is known: which plugin has run at PreFilter.
type preFiltered struct {
	plugin.Cycle
	name string
}

func (p preFiltered) PreFiltered(name string) bool { return name == p.name }

func TestPostFilter(t *testing.T) {
	for _, row := range []struct {
		ran string
		err error
	}{{"DynamicResources", nil}, {"NodeAffinity", errNotFound}} {
		result, err := NewPostFilter().PostFilter(preFiltered{name: row.ran}, nil)
		if !errors.Is(err, row.err) || err != nil && err.Error() != "not found" || !reflect.DeepEqual(result, plugin.PostFilterResult{}) {
			t.Errorf("after %s: %+v, %v, want nothing and %v", row.ran, result, err, row.err)
		}
	}
}
