package absent

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	p, err := New("GangScheduling")
	if err != nil {
		t.Fatal(err)
	}
	plugintest.CheckContract(t, plugintest.Of{Own: p}, plugintest.Contract{Name: "GangScheduling", Events: []string{"TargetPodUpdate, hint"}})
	want := `plugin "Nonsense" is missing, and it is not known which pods need it`
	if _, err := New("Nonsense"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
