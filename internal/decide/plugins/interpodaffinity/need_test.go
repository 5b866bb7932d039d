package interpodaffinity_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestNeeds(t *testing.T) {
	db := wearing("app=db")
	zoneDB, hostDB, broken := term(zone, "app=db"), term(host, "app=db"), term(zone, "app In")
	p := newPlugin(t, nil)
	const same, other = true, false
	for i, row := range []struct {
		a, b          *v1.Pod
		filter, score bool // whether the needs are equal
	}{
		{pod(), pod(), same, same},
		{pod(db), pod(db, func(p *v1.Pod) { p.Name, p.UID = "b", "b" }), same, same},
		{pod(), pod(db), other, other},
		{pod(db), pod(wearing("app=web")), other, other},
		{pod(wearing("a=b c=d")), pod(wearing("c=d a=b")), same, same},
		{pod(wearing("a=b c=d")), pod(wearing("a=b,c=d")), other, other},
		{pod(), pod(in("other")), other, other},
		{pod(near(zoneDB)), pod(), other, same},
		{pod(near(zoneDB)), pod(apart(zoneDB)), other, same},
		{pod(near(zoneDB)), pod(near(hostDB)), other, same},
		{pod(near(zoneDB, hostDB)), pod(near(hostDB, zoneDB)), same, same},
		{pod(near(zoneDB)), pod(near(term(zone, "app=db", inNamespaces("default")))), same, same},
		{pod(near(zoneDB)), pod(near(term(zone, "app=db", inNamespaces("other")))), other, same},
		{pod(near(zoneDB)), pod(near(term(zone, "app=db", inNamespaces("default"), whereNamespace("everything")))), other, same},
		{pod(near(term(zone, "absent"))), pod(near(term(zone, "everything"))), other, same},
		{pod(likes(1, zoneDB)), pod(), same, other},
		{pod(likes(1, zoneDB)), pod(likes(2, zoneDB)), same, other},
		{pod(likes(1, zoneDB)), pod(dislikes(1, zoneDB)), same, other},
		{pod(likes(1, zoneDB)), pod(likes(1, zoneDB), likes(1, zoneDB)), same, other},
		{pod(likes(1, zoneDB), likes(2, hostDB)), pod(likes(2, hostDB), likes(1, zoneDB)), same, same},
		{pod(likes(1, broken)), pod(), other, other},
		{pod(likes(1, broken)), pod(near(broken)), other, other},
		{pod(near(broken), db), pod(near(broken)), same, same},
	} {
		a, b := model.NewPod(row.a), model.NewPod(row.b)
		if got := plugintest.FilterNeed(p, a) == plugintest.FilterNeed(p, b); got != row.filter {
			t.Errorf("row %d: filter needs equal: %t; %s and %s", i, got, plugintest.FilterNeed(p, a), plugintest.FilterNeed(p, b))
		}
		if got := plugintest.ScoreNeed(p, a) == plugintest.ScoreNeed(p, b); got != row.score {
			t.Errorf("row %d: score needs equal: %t; %s and %s", i, got, plugintest.ScoreNeed(p, a), plugintest.ScoreNeed(p, b))
		}
	}
}

// Only the arguments can make the plugin skip a pod: the terms of any other pod may
// select it.
func TestZeroNeeds(t *testing.T) {
	zoneDB := term(zone, "app=db")
	ignoring := newPlugin(t, &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true})
	for i, row := range []struct {
		pod  *v1.Pod
		zero bool
	}{
		{pod(), true},
		{pod(near(zoneDB), apart(zoneDB)), true},
		{pod(near(term(zone, "app In"))), true},
		{pod(likes(1, zoneDB)), false},
		{pod(dislikes(1, zoneDB)), false},
	} {
		p := model.NewPod(row.pod)
		if got := plugintest.ScoreNeed(ignoring, p).IsZero(); got != row.zero {
			t.Errorf("row %d: zero score need %t, want %t", i, got, row.zero)
		}
		if plugintest.FilterNeed(ignoring, p).IsZero() || plugintest.FilterNeed(newPlugin(t, nil), p).IsZero() || plugintest.ScoreNeed(newPlugin(t, nil), p).IsZero() {
			t.Errorf("row %d: a need is zero", i)
		}
	}
}

// Using more terms than the cache holds must not change the result for the first.
func TestManyTerms(t *testing.T) {
	p := newPlugin(t, nil)
	hint := p.EventsToRegister()[0]
	ask := func(i int) bool {
		waiting := model.NewPod(pod(near(term(zone, fmt.Sprint("app=a", i)))))
		return hint.Helps(waiting, came(wearing(fmt.Sprint("app=a", i)))) && !hint.Helps(waiting, came(wearing("app=other")))
	}
	for i := range 5000 {
		if !ask(i) || !ask(0) {
			t.Fatalf("term %d", i)
		}
	}
}
