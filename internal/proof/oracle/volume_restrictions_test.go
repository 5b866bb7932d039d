package oracle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The rows R are the worked examples of VolumeRestrictions.

func TestVolumeRestrictions(t *testing.T) {
	on1 := func(parts ...podPart) []*v1.Pod { return fill("n1=1", parts...) }
	rwop := having(pvc("c", "modes=RWOP bound=v"), pvc("c", "namespace=b modes=RWOP bound=w"), pv("v", "phase=Bound"), pv("w", "phase=Bound"))
	two := having(pvc("c1", "modes=RWOP bound=v"), pvc("c2", "modes=RWOP bound=v"), pv("v", "phase=Bound"))
	tests := []struct {
		row  string
		c    Cluster
		pod  *v1.Pod
		want string
	}{
		{"R1", storing("n1= n2=", on1(disks("pd=pd1"))), pod(readOnly("pd=pd1")), "disk fits"},
		{"R1 the other way round", storing("n1= n2=", on1(readOnly("pd=pd1"))), pod(disks("pd=pd1")), "disk fits"},
		{"R2", storing("n1=", on1(readOnly("pd=pd1"))), pod(readOnly("pd=pd1")), "fits"},
		{"another disk", storing("n1=", on1(disks("pd=pd1"))), pod(disks("pd=pd2")), "fits"},
		{"R3", storing("n1=", on1(readOnly("ebs=vol-1"))), pod(readOnly("ebs=vol-1")), "disk"},
		{"R4 one writes", storing("n1=", on1(readOnly("iscsi=iqn/0"))), pod(disks("iscsi=iqn/1")), "disk"},
		{"R4 both read", storing("n1=", on1(readOnly("iscsi=iqn/0"))), pod(readOnly("iscsi=iqn/1")), "fits"},
		{"R5", storing("n1=", on1(disks("rbd=m1,m2/pool/image"))), pod(readOnly("rbd=m2,m3/pool/image")), "disk"},
		{"R5 both read", storing("n1=", on1(readOnly("rbd=m1/pool/image"))), pod(readOnly("rbd=m1/pool/image")), "fits"},
		{"R5 other monitors", storing("n1=", on1(disks("rbd=m1/pool/image"))), pod(readOnly("rbd=m3/pool/image")), "fits"},
		{"R5 other pool, other image", storing("n1=", on1(disks("rbd=m/pool/image"))), pod(disks("rbd=m/loop/image rbd=m/pool/page")), "fits"},
		{"disks of every namespace", storing("n1=", on1(in("other"), ending, disks("pd=pd1"))), pod(disks("pd=pd1")), "disk"},
		{"R6", storing("n1=", on1(disks("pd=pd1")), having(pv("v", "phase=Bound pd=pd1"), pvc("c", "bound=v"))...), pod(claims("c")), "fits"},
		{"R7", storing("n1= n2=", fill("n2=1", claims("c")), rwop...), pod(claims("c")), "rwop rwop"},
		{"used in another namespace", storing("n1=", on1(in("b"), claims("c")), rwop...), pod(claims("c")), "fits"},
		{"used on a node that is gone", storing("n1=", fill("gone=1", claims("c")), rwop...), pod(claims("c")), "fits"},
		{"nobody uses it", storing("n1=", nil, rwop...), pod(claims("c c")), "fits"},
		{"used, but for anyone", storing("n1=", on1(claims("c")), pvc("c", "bound=v"), pv("v", "phase=Bound")), pod(claims("c")), "fits"},
		{"R9", storing("n1= n2= n3=", append(fill("n1=1", claims("c1")), fill("n2=1", claims("c2"))...), two...), pod(claims("c1 c2")), "rwop rwop rwop"},
		{"disk before claim", storing("n1=", on1(claims("c"), disks("pd=pd1")), rwop...), pod(disks("pd=pd1"), claims("c")), "disk"},
		{"R10", storing("n1=", nil), pod(claims("c")), `pod: VolumeRestrictions: persistentvolumeclaim "c" not found`},
	}
	for _, tt := range tests {
		if got := ruling(Judge(tt.c, tt.pod, DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

func TestVolumeRestrictionsDryRun(t *testing.T) {
	objects := having(pvc("c", "modes=RWOP bound=v"), pvc("c", "namespace=b bound=v"), pvc("c1", "modes=RWOP bound=v"), pvc("c2", "modes=RWOP bound=v"),
		pv("v", "phase=Bound"))
	user, namesake, twice := pod(on("n2"), claims("c")), pod(in("b"), on("n1"), claims("c")), pod(on("n1"), claims("c c"))
	user1, user2 := pod(on("n1"), claims("c1")), pod(on("n2"), claims("c2"))
	disk := pod(on("n1"), disks("pd=pd1"))
	tests := []struct {
		row    string
		pods   []*v1.Pod
		pod    *v1.Pod
		dryRun DryRun
		want   string
	}{
		{"R7 n2", []*v1.Pod{user}, pod(claims("c")), DryRun{Node: "n2", Removed: []*v1.Pod{user}}, "fits"},
		{"R7 n1", []*v1.Pod{user}, pod(claims("c")), DryRun{Node: "n1"}, "rwop"},
		{"R8", []*v1.Pod{user, namesake}, pod(claims("c")), DryRun{Node: "n1", Removed: []*v1.Pod{namesake}}, "fits"},
		{"R9 n1", []*v1.Pod{user1, user2}, pod(claims("c1 c2")), DryRun{Node: "n1", Removed: []*v1.Pod{user1}}, "rwop"},
		{"R9 n2", []*v1.Pod{user1, user2}, pod(claims("c1 c2")), DryRun{Node: "n2", Removed: []*v1.Pod{user2}}, "rwop"},
		{"volumes are counted, not claims", []*v1.Pod{user1, twice}, pod(claims("c1 c")), DryRun{Node: "n1", Removed: []*v1.Pod{twice}}, "fits"},
		{"added after Skip", nil, pod(claims("c")), DryRun{Node: "n1", Added: []*v1.Pod{user}}, "fits"},
		{"added", nil, pod(claims("c"), disks("pd=pd2")), DryRun{Node: "n1", Added: []*v1.Pod{user}}, "rwop"},
		{"disk removed", []*v1.Pod{disk}, pod(disks("pd=pd1")), DryRun{Node: "n1", Removed: []*v1.Pod{disk}}, "fits"},
	}
	for _, tt := range tests {
		if got := dryRuling(storing("n1= n2=", tt.pods, objects...), tt.pod, tt.dryRun); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}
