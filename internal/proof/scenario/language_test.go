package scenario

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
)

// TestReadme checks that the README's example runs, and that the README has every word of
// the grammar.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, rest, _ := strings.Cut(text, "```scenario\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no ```scenario block")
	}
	s, err := Parse("README.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(config.Release37); err != nil {
		t.Error(err)
	}
	var words []string
	for _, s := range statements {
		words = append(words, "`"+s.word)
	}
	for _, f := range forms {
		words = append(words, "`"+f.word)
	}
	for _, o := range outcomes {
		words = append(words, "`POD "+o)
	}
	words = append(words, keysOf(nodeAttributes)...)
	words = append(words, keysOf(podAttributes)...)
	words = append(words, keysOf(settingAttributes)...)
	words = append(words, keysOf(claimAttributes)...)
	words = append(words, keysOf(volumeAttributes)...)
	words = append(words, keysOf(classAttributes)...)
	words = append(words, keysOf(csiNodeAttributes)...)
	words = append(words, keysOf(driverAttributes)...)
	words = append(words, keysOf(capacityAttributes)...)
	words = append(words, keysOf(attachmentAttributes)...)
	words = append(words, keysOf(budgetAttributes)...)
	words = append(words, keysOf(deviceClassAttributes)...)
	words = append(words, keysOf(sliceAttributes)...)
	words = append(words, keysOf(ruleAttributes)...)
	words = append(words, keysOf(deviceClaimAttributes)...)
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("README.md does not explain %s`", word)
		}
	}
}

func keysOf[T any](table []attribute[T]) []string {
	var keys []string
	for _, a := range table {
		if a.key != resourceKey {
			keys = append(keys, "`"+a.key)
		}
	}
	return keys
}

// TestMistakes parses invalid scenarios and expects errors with the line, the word and
// the allowed words.
func TestMistakes(t *testing.T) {
	const head = "# Why.\n"
	tests := []struct{ name, text, want string }{
		{"no title", "node a\n----\na gone\n", `f:1: the first line must be a comment`},
		{"no expectations", head + "node a\n", `f:2: the last step expects nothing; want "----"`},
		{"empty step", head + "node a\n==== then\n----\nweb a\n", `f:3: the step before expects nothing`},
		{"two marks", head + "----\nweb a\n----\n", `f:4: a second "----"; "====" starts the next step`},
		{"unknown command", head + "nod a\n----\nweb a\n", `f:2: unknown command "nod"; want one of advance, compositepodgroup, config,`},
		{"no name", head + "node cpu=4\n----\nweb a\n", `f:2: node: a name is missing`},
		{"unknown attribute", head + "node a cpus=4\n----\nweb a\n", `f:2: node: unknown node attribute "cpus=4"; want one of DOMAIN/RESOURCE, cpu,`},
		{"no value", head + "pod web cpu\n----\nweb a\n", `f:2: pod: pod attribute "cpu" has no value; want cpu=QUANTITY`},
		{"bad quantity", head + "pod web cpu=much\n----\nweb a\n", `f:2: pod: pod attribute "cpu=much": "much" is not a quantity`},
		{"bad effect", head + "node a taint=k:Never\n----\nweb a\n", `"Never" is not an effect: [NoSchedule PreferNoSchedule NoExecute]`},
		{"bad port", head + "pod web port=99999\n----\nweb a\n", `"99999" is not a port from 1 to 65535`},
		{"bad term", head + "pod web affinity==x\n----\nweb a\n", `"=x" is not a requirement: K=V,W`},
		{"bad skew", head + "pod web spread=zone:0\n----\nweb a\n", `"0" is not a skew of 1 or more; want spread=KEY:SKEW`},
		{"bad spread option", head + "pod web spread=zone:1:hard\n----\nweb a\n", `unknown option "hard"`},
		{"bad policy", head + "pod web spread=zone:1:taints=yes\n----\nweb a\n", `"yes" is not a policy: honor or ignore`},
		{"spread without selector", head + "pod web spread=zone:1 unlabel=app\n----\nweb a\n", `the pod has no label app, so the constraint needs a selector`},
		{"no selector", head + "pod web repel=zone\n----\nweb a\n", `the selector is missing; want repel=KEY:SELECTOR`},
		{"numbers in selector", head + "pod web affine=zone:cores>4\n----\nweb a\n", `"cores>4": labels are not compared as numbers here`},
		{"weight of a rule", head + "pod web affine=zone:app=db:5\n----\nweb a\n", `unknown option "5"`},
		{"no weight", head + "pod web avoid-pod=zone:app=db\n----\nweb a\n", `the weight is missing; want avoid-pod=KEY:SELECTOR:WEIGHT`},
		{"bad weight", head + "pod web prefer-pod=zone:app=db:101\n----\nweb a\n", `"101" is not a weight from 1 to 100`},
		{"bad owner", head + "pod web owner=deployment/web\n----\nweb a\n", `"deployment" is not a kind of owner: replicaset, statefulset,`},
		{"namespace in namespace", head + "namespace a/b\n----\nweb a\n", `f:2: namespace: "a/b": a namespace is in no namespace`},
		{"service without value", head + "service web select=app\n----\nweb a\n", `f:2: service: service attribute "select=app": "app" has no value; want select=KEY=VALUE`},
		{"bad count", head + "pods web 3\n----\nweb a\n", `f:2: pods: "3": want a count from x1 to x100000`},
		{"bad fault", head + "fail bind web once badly\n----\nweb a\n", `unknown bind fault "badly"; want conflict, forbidden, denied, throttled, unavailable, internal, refused, lost, dropped, timed-out or late`},
		{"bad duration", head + "advance 5\n----\nweb a\n", `f:2: advance: "5": want a duration such as 300ms, 5s or 6m`},
		{"claim with a bad mode", head + "pvc data modes=RWY\n----\nweb a\n", `f:2: pvc: pvc attribute "modes=RWY": "RWY" is not an access mode; want modes=RWO, RWX, ROX or RWOP`},
		{"claim with a bad size", head + "set pvc data size=big\n----\nweb a\n", `f:2: set pvc: pvc attribute "size=big": "big" is not a quantity`},
		{"volume in namespace", head + "pv a/b\n----\nweb a\n", `f:2: pv: "a/b": a pv is in no namespace`},
		{"volume with a bad mode", head + "pv v mode=Tape\n----\nweb a\n", `"Tape" is not a volume mode; want mode=Block or Filesystem`},
		{"volume with a bad phase", head + "pv v phase=New\n----\nweb a\n", `"New" is not a phase`},
		{"bad policy of a class", head + "storageclass s reclaim=Maybe\n----\nweb a\n", `"Maybe" is not a reclaim policy`},
		{"bad topology", head + "storageclass s topology=zone\n----\nweb a\n", `"zone" has no value; want topology=KEY=VALUE,...;...`},
		{"bad limit", head + "csinode a driver=d:-1\n----\nweb a\n", `"-1" is not a number of volumes`},
		{"bad capacity", head + "csistoragecapacity c max=1X\n----\nweb a\n", `"1X" is not a quantity`},
		{"bad disk", head + "pod web disk=nfs/x\n----\nweb a\n", `"nfs/x" is not a disk; want disk=pd/NAME,`},
		{"bad LUN", head + "pod web disk=iscsi/q/one\n----\nweb a\n", `"one" is not a LUN`},
		{"bad ephemeral volume", head + "pod web ephemeral-pvc=scratch\n----\nweb a\n", `want a name, a class and a size; want ephemeral-pvc=NAME:CLASS:SIZE or none`},
		{"terminating no more", head + "pvc data terminating=false\n----\nweb a\n", `"false": deletion cannot be taken back`},
		{"bad provisioning", head + "fail provision data\n----\nweb a\n", `f:2: fail provision: want CLAIM once|xCOUNT|always`},
		{"bad bindtimeout", head + "config bindtimeout=soon\n----\nweb a\n", `"soon": want a duration`},
		{"unattended by whom", head + "unattended by me\n----\nweb a\n", `f:2: unattended: "by": want nothing after it`},
		{"claim of what", head + "----\npvc data:\n", `f:3: pvc: want a name, a colon and what has become of it; want "pvc CLAIM: bound to VOLUME`},
		{"bad start", head + "pod web started=noon\n----\nweb a\n", `"noon" is not a time of day; want started=HH:MM or none`},
		{"bad preemption policy", head + "pod web preempts=always\n----\nweb a\n", `"always" is not a policy; want preempts=never or lower`},
		{"bad budget", head + "pdb web maxunavailable=some\n----\nweb a\n", `"some" is neither a number nor a percentage; want maxunavailable=NUMBER, PERCENT% or none`},
		{"bad allowance", head + "set pdb web allowed=all\n----\nweb a\n", `"all" is not a number of pods`},
		{"preemption of what", head + "----\npreempt web:\n", `f:3: preempt: want a pod, a colon, and none or a node and its victims; want "preempt POD: NODE VICTIM ... | none"`},
		{"two nominations", head + "----\nnominated web: a b\n", `f:3: nominated: want a pod, a colon, and a node or none`},
		{"bad eviction", head + "fail delete web once\n----\nweb a\n", `f:2: fail delete: want POD once|xCOUNT|always FAULT`},
		{"open quotes", head + "deviceclass gpu select=\"device.driver == 'x'\n----\nweb a\n", `f:2: deviceclass: select: the quotes are not closed`},
		{"no such device", head + "resourceslice s devices=d1 shared=d2\n----\nweb a\n", `resourceslice attribute "shared=d2": the slice has no device "d2"; want shared=DEVICE or *`},
		{"bad device taint", head + "devicetaintrule x taint=broken\n----\nweb a\n", `"broken" is not a key with an effect; want taint=KEY[=VALUE]:EFFECT`},
		{"bad device effect", head + "devicetaintrule x taint=broken:PreferNoSchedule\n----\nweb a\n", `"PreferNoSchedule" is not an effect: None, NoSchedule or NoExecute`},
		{"bad device capacity", head + "resourceslice s devices=d1 capacity.mem=10Gi,least:1Gi\n----\nweb a\n", `"least" is not min, max, step or default`},
		{"bad generation", head + "resourceslice s generation=new\n----\nweb a\n", `"new" is not a number; want generation=NUMBER`},
		{"count of nothing", head + "resourceclaim c count=2\n----\nweb a\n", `resourceclaim attribute "count=2": it belongs to a request, which class= or first= begins`},
		{"administrators have no choice", head + "resourceclaim c first=a,b admin\n----\nweb a\n", `a request with alternatives has no access for administrators`},
		{"bad allocation", head + "resourceclaim c class=gpu allocated=a:d1\n----\nweb a\n", `"d1" is not a device: want POOL/DEVICE; want allocated=NODE or *:[DRIVER/]POOL/DEVICE,... or none`},
		{"allocation of nothing", head + "resourceclaim c class=gpu allocated=p/d1\n----\nweb a\n", `"p/d1" names no devices`},
		{"bad condition", head + "resourceclaim c class=gpu allocated=a:p/d1 condition=d2:Ready\n----\nweb a\n", `the device "d2" is not allocated; want condition=DEVICE:TYPE[=STATUS]`},
		{"status of a template", head + "resourceclaimtemplate c class=gpu allocated=a:p/d1\n----\nweb a\n", `f:2: resourceclaimtemplate: a template has no status`},
		{"late setting", head + "node a\nseed 1\n----\nweb a\n", `f:3: "seed" must come before everything else`},
		{"bad configuration", head + "config fit=Best\n----\nweb a\n", `f:2: config: `},
		{"open block", head + "config\nprofiles: []\n", `f:2: the block that starts here has no line "end"`},
		{"bad expectation", head + "----\nweb is on a\n", `f:3: "web is on a": want a pod and its node or one of binding, error, gated, gone, ignored, pending, terminating`},
		{"bad place", head + "----\nplace web: somewhere\n", `f:3: place: want a pod, a colon and one of active,`},
		{"bad release", head + "----\n[1.36] web a\n", `f:3: release "1.36": must be 1.37 or 1.38`},
		{"bad scores", head + "----\nscores web: a\n", `f:3: scores: "a" is not NAME=NUMBER; want "scores POD: NODE=TOTAL ..."`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// TestAnswersOfReleases expects that an expectation with a release is checked only there.
func TestAnswersOfReleases(t *testing.T) {
	s, err := Parse("f", []byte("# Why.\nnode a cpu=1\npod web cpu=1\n----\n[1.37] web a\n[1.38] web b\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(config.Release37); err != nil {
		t.Errorf("1.37: %v", err)
	}
	if err := s.Run(config.Release38); err == nil || !strings.Contains(err.Error(), "f:6: web: want b, is a") {
		t.Errorf("1.38: error %v, want one for line 6", err)
	}
}

// TestDoesNotHold runs expectations that do not hold and expects errors with the actual
// state.
func TestDoesNotHold(t *testing.T) {
	const cluster = "# Why.\nnode a cpu=1\nnode b cpu=1\npod web cpu=2\npod ok cpu=1 select=hostname=a\n----\n"
	tests := []struct{ name, line, want string }{
		{"node", "ok b", `f:7: ok: want b, is a`},
		{"pending", "web a", `f:7: web: want a, is pending: 0/2 nodes are available: 2 Insufficient cpu.`},
		{"text", "web pending: 1 Insufficient cpu", `want pending: 1 Insufficient cpu, is pending: 0/2`},
		{"absent", "other a", `f:7: there is no pod other`},
		{"gone", "ok gone", `f:7: ok: want gone, is there: a`},
		{"order", "order: ok web", `f:7: order: want ok web, is web ok`},
		{"attempts", "attempts ok 2", `f:7: attempts ok: want 2, is 1`},
		{"place", "place web: gated", `f:7: place web: want gated, is parked`},
		{"count", "count *: a=2", `f:7: count *: want a=2, is map[a:1 pending:1]`},
		{"scores", "scores web: a=1", `infeasible: NodeResourcesFit: Insufficient cpu`},
		{"plugin", "plugin ok a ImageLocality=7", `f:7: plugin ok a: want ImageLocality=7, is 0:`},
		{"reject", "reject web a NodePorts: x", `is NodeResourcesFit: Insufficient cpu`},
		{"claim", "pvc data: lost", `f:7: data: want lost, is gone`},
		{"volume", "pv v: available", `f:7: v: want available, is gone`},
		{"terminating", "ok terminating", `f:7: ok: want terminating, is a`},
		{"preemption", "preempt web: a ok", `f:7: preempt web: want a ok, is none`},
		{"nomination", "nominated web: a", `f:7: nominated web: want a, is none`},
		{"disruption", "disrupted ok: x", `f:7: disrupted ok: want x, is none`},
		{"budget", "allowed web: 1", `f:7: there is no pdb web`},
		{"device claim", "resourceclaim one: free", `f:7: one: want free, is gone`},
		{"no node", "scores web: z=1", `f:7: there is no node z`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := Parse("f", []byte(cluster+test.line+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(config.Release37); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}
