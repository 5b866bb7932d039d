package simulate

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestClaimWrites makes valid and invalid writes to claims, which the API server stores
// or refuses. It compares the text of the stored claim, without the parts that are equal
// in all rows.
func TestClaimWrites(t *testing.T) {
	const (
		allocated = `"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"g"}]}}`
		others    = `"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"h"}]}}`
		states    = `"devices":[{"driver":"d","pool":"p","device":"g"},{"driver":"d","pool":"p","device":"gone"}]`
		forA      = `{"resource":"pods","name":"a","uid":"a"}`
		forB      = `{"resource":"pods","name":"b","uid":"b"}`
		deletes   = `{"$patch":"delete","uid":"a"}`
	)
	for _, row := range []struct {
		name, finalizer string
		leaving         bool
		status          string // before
		subresource     string
		patch           string
		want            string // the status afterwards, or "" if the write is refused as invalid
	}{
		{"allocation and reservation", "f", false, `{}`, "status", `{"status":{` + allocated + `,"reservedFor":[` + forA + `]}}`, `{` + allocated + `,"reservedFor":[` + forA + `]}`},
		{"reservation without an allocation", "f", false, `{}`, "status", `{"status":{"reservedFor":[` + forA + `]}}`, ""},
		{"reservation without a UID", "f", false, `{` + allocated + `}`, "status", `{"status":{"reservedFor":[{"resource":"pods","name":"a"}]}}`, ""},
		{"another reservation", "f", false, `{` + allocated + `,"reservedFor":[` + forA + `]}`, "status", `{"status":{"reservedFor":[` + forB + `]}}`, `{` + allocated + `,"reservedFor":[` + forB + `,` + forA + `]}`},
		{"reservation taken back", "f", false, `{` + allocated + `,"reservedFor":[` + forA + `]}`, "status", `{"status":{"reservedFor":[` + deletes + `]}}`, `{` + allocated + `}`},
		{"another allocation", "f", false, `{` + allocated + `}`, "status", `{"status":{` + others + `}}`, ""},
		{"a time of the allocation", "f", false, `{` + allocated + `}`, "status", `{"status":{"allocation":{"allocationTimestamp":"2026-01-01T00:00:00Z"}}}`, ""},
		{"deallocation", "f", false, `{` + allocated + `}`, "status", `{"status":{"allocation":null}}`, `{}`},
		{"deallocation of what is reserved", "f", false, `{` + allocated + `,"reservedFor":[` + forA + `]}`, "status", `{"status":{"allocation":null}}`, ""},
		{"states of devices", "f", false, `{` + allocated + `}`, "status", `{"status":{` + states + `}}`, `{` + allocated + `,"devices":[{"driver":"d","pool":"p","device":"g","conditions":null}]}`},
		{"deallocation drops them", "f", false, `{` + allocated + `,` + states + `}`, "status", `{"status":{"allocation":null}}`, `{}`},
		{"reservation of a claim that is being deleted", "f", true, `{` + allocated + `}`, "status", `{"status":{"reservedFor":[` + forA + `]}}`, ""},
		{"reservation taken back of such", "f", true, `{` + allocated + `,"reservedFor":[` + forA + `]}`, "status", `{"status":{"reservedFor":[` + deletes + `]}}`, `{` + allocated + `}`},
		{"a write to the status changes nothing else", "f", false, `{}`, "status", `{"metadata":{"finalizers":["g"]},"spec":{"devices":{"requests":[{"name":"x"}]}}}`, `{}`},
		{"a write to the claim does not change the status", "f", false, `{` + allocated + `}`, "", `{"metadata":{"finalizers":["g"]},"status":{"allocation":null}}`, `{` + allocated + `}`},
		{"another spec", "f", false, `{}`, "", `{"spec":{"devices":{"requests":[{"name":"x"}]}}}`, ""},
		{"a finalizer for a claim that is being deleted", "f", true, `{}`, "", `{"metadata":{"finalizers":["g"]}}`, ""},
	} {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Finalizers: []string{row.finalizer}}}
		if row.leaving {
			claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
		}
		if err := json.Unmarshal([]byte(row.status), &claim.Status); err != nil {
			t.Fatal(err)
		}
		s := newStore(0)
		ref := model.ClaimKey{Namespace: "ns", Name: "c"}.DeviceRef()
		s.setOther(ref, claim)
		_, err := s.patch(&plan.Write{
			Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), Namespace: "ns", Name: "c", Subresource: row.subresource,
			Type: types.StrategicMergePatchType, Data: []byte(row.patch),
		})
		now := s.others[ref].(*resourcev1.ResourceClaim)
		status, _ := json.Marshal(now.Status)
		switch {
		case row.want == "" && !apierrors.IsInvalid(err):
			t.Errorf("%s: %v, want it to be refused; stored is %s", row.name, err, status)
		case row.want != "" && (err != nil || string(status) != row.want || len(now.Spec.Devices.Requests) > 0):
			t.Errorf("%s: %v, stored is %s with %v, want %s", row.name, err, status, now.Spec, row.want)
		}
	}
}

// TestClaimIsDeleted deletes claims. A claim without finalizers goes at once, another one
// with its last finalizer.
func TestClaimIsDeleted(t *testing.T) {
	c := &Cluster{store: newStore(0), watches: map[model.Kind]*watch{}, happened: map[string]int{}}
	c.volume, c.claim, c.budget = newVolumeController(c, Volumes{}), newClaimController(c, Devices{Unattended: true}, false), newBudgetController(c)
	ref := model.ClaimKey{Namespace: "ns", Name: "c"}.DeviceRef()
	for _, finalizers := range [][]string{nil, {resourcev1.Finalizer}} {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Finalizers: finalizers}}
		if err := c.SetObject(claim); err != nil || !c.DeleteObject(ref) {
			t.Fatal(err)
		}
		now, stays := c.Object(ref).(*resourcev1.ResourceClaim)
		if stays != (finalizers != nil) || stays && now.DeletionTimestamp == nil {
			t.Errorf("with %v it is stored as %v", finalizers, now)
		}
		if !stays {
			continue
		}
		version := now.ResourceVersion
		if c.DeleteObject(ref); fmt.Sprint(c.Object(ref).GetResourceVersion()) != version {
			t.Error("a second deletion makes a version")
		}
		c.claim.put(withoutFinalizer(now))
		if c.Object(ref) != nil {
			t.Error("it stays without finalizers")
		}
	}
}
