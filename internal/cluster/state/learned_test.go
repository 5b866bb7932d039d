package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// claimIn is the claim c with a UID and a version.
func claimIn(uid, version string) model.Change {
	return compiled(model.NewClaim(build.PersistentVolumeClaim("c", fmt.Sprintf("uid=%s version=%s", uid, version))))
}

// TestLearnedVersions lets the watch show versions of a claim, and others be learned, in
// every order. A step reads "watch u5", "learn u5" or "gone"; after it, the state has the
// version that follows, and returns an event if it is new.
func TestLearnedVersions(t *testing.T) {
	for _, row := range []struct{ name, steps string }{
		{"learned before it is shown", "watch u4: u4 Add; learn u5: u5 Update; watch u5: u5; watch u6: u6 Update"},
		{"shown before it is learned", "watch u4: u4 Add; watch u5: u5 Update; learn u5: u5; watch u6: u6 Update"},
		{"the watch is far behind", "watch u4: u4 Add; learn u10: u10 Update; watch u8: u10; watch u9: u10; watch u11: u11 Update; watch u12: u12 Update"},
		{"shown newer than learned", "watch u4: u4 Add; watch u9: u9 Update; learn u8: u9"},
		{"learned twice", "watch u4: u4 Add; learn u5: u5 Update; learn u7: u7 Update; learn u6: u7; watch u5: u7; watch u6: u7; watch u7: u7; watch u8: u8 Update"},
		{"gone, and learned late", "watch u4: u4 Add; gone: none Delete; learn u5: none; watch u5: u5 Add"},
		{"learned, and gone", "watch u4: u4 Add; learn u5: u5 Update; gone: none Delete; watch u4: u4 Add"},
		{"never shown", "learn u5: none; watch u4: u4 Add"},
		{"another object by now", "watch u4: u4 Add; gone: none Delete; watch w6: w6 Add; learn u5: w6; learn u9: w6"},
		{"another object while the watch is behind", "watch u4: u4 Add; learn u5: u5 Update; watch w4: w4 Update; watch w3: w3 Update"},
		{"etcd was restored from a backup", "watch u4: u4 Add; learn u5: u5 Update; watch u5: u5; watch u3: u3 Update"},
		{"versions that no API server gives", "watch ux: ux Add; learn uy: ux; watch u0: u0 Update"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New()
			for _, step := range strings.Split(row.steps, "; ") {
				does, want, _ := strings.Cut(step, ": ")
				verb, version, _ := strings.Cut(does, " ")
				change := model.Change{Kind: model.ObjectGone, Ref: model.ClaimKey{Namespace: "default", Name: "c"}.Ref()}
				if verb != "gone" {
					change = claimIn(version[:1], version[1:])
					change.Learned = verb == "learn"
				}
				delta := s.Apply([]model.Change{change})
				audited(t, s)
				got := "none"
				if claim := s.storage.Claim(model.ClaimKey{Namespace: "default", Name: "c"}); claim != nil {
					got = string(claim.UID()) + claim.Version()
				}
				for _, event := range delta.Events {
					got += " " + map[model.Action]string{model.Add: "Add", model.Update: "Update", model.Delete: "Delete"}[event.Action]
				}
				if got != want {
					t.Fatalf("after %q the state has %q, want %q", does, got, want)
				}
			}
		})
	}
}

// TestLearnedIsForOneStore learns objects of every compiled kind, and a budget, which has
// no other version to compare with.
func TestLearnedIsForOneStore(t *testing.T) {
	object := func(version string) []model.Compiled {
		v := "version=" + version
		return []model.Compiled{
			model.NewClaim(build.PersistentVolumeClaim("c", v)), model.NewVolume(build.PersistentVolume("v", v)), model.NewStorageClass(build.StorageClass("c", v)),
			model.NewCSINode(build.CSINode("n", "")), model.NewCSIDriver(build.CSIDriver("d", v)), model.NewStorageCapacity(build.CSIStorageCapacity("r", v, "zone=z1")),
			model.NewVolumeAttachment(build.VolumeAttachment("a", v)),
		}
	}
	s := New()
	for i, shown := range object("1") {
		if node, ok := shown.(*model.CSINode); ok {
			node.Object.ResourceVersion = "1"
		}
		s.Apply([]model.Change{compiled(shown)})
		learned := compiled(object("2")[i])
		if node, ok := learned.Compiled.(*model.CSINode); ok {
			node.Object.ResourceVersion = "2"
		}
		learned.Learned = true
		s.Apply([]model.Change{learned})
		if known := s.compiled(shown.Ref()); known == nil || known.Version() != "2" {
			t.Errorf("of %v the version %v is known", shown.Ref(), known)
		}
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: shown.Ref()}})
		if known := s.compiled(shown.Ref()); known != nil || s.Sizes().Learned != 0 {
			t.Errorf("of %v the version %v is known when it is gone, and %d are learned", shown.Ref(), known, s.Sizes().Learned)
		}
	}
	budget := compiled(model.NewDisruptionBudget(budgetOf("ns", "b", "app=web", 1)))
	budget.Learned = true
	if s.Apply([]model.Change{budget}); len(s.budgets.byNamespace) > 0 {
		t.Error("a budget was learned")
	}
}

// TestNow reads the time of the turn, also in drafts.
func TestNow(t *testing.T) {
	s, now := New(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if !s.View().Now().IsZero() {
		t.Error("there is a time before there is a turn")
	}
	s.SetNow(now)
	var d Draft
	for _, v := range []View{s.View(), s.View().DryRun(&d).View()} {
		if v.Now() != now {
			t.Errorf("it is %s, want %s", v.Now(), now)
		}
	}
}
