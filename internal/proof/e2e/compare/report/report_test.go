package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func figures(rate, events float64, cpu, first time.Duration) Figures {
	return Figures{
		PodsPerSecond: rate, WithEvents: events, CPUPerPod: cpu, ServerCPUPerPod: 2 * time.Millisecond, FirstBind: first,
		P50: time.Second, P99: 12 * time.Second, PeakBytes: 150 << 20,
	}
}

// rounds returns rounds of three contenders in a small case, one of them failed, and of a
// workload and a restart.
func rounds() []Round {
	plain := Case{Kind: "shape", Name: "plain", Nodes: 5000, Before: 30000, Pods: 10}
	basic := Case{Kind: "workload", Name: "SchedulingBasic/5000Nodes_10000Pods", Nodes: 5000, Before: 1000, Pods: 10000, Floor: 680}
	restart := Case{Kind: "restart", Name: "Restart/100000Running", Nodes: 5000, Before: 100000, Pods: 100}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	basicBinder := figures(900, 850, 200*time.Microsecond, time.Second)
	basicBinder.ServerCPUPerPod = 1500 * time.Microsecond
	return []Round{
		{Case: plain, Contender: Berth, Number: 1, Time: at, Figures: figures(900, 700, 400*time.Microsecond, time.Second)},
		{Case: plain, Contender: Binder, Number: 1, Time: at, Figures: figures(1000, 700, 200*time.Microsecond, time.Second)},
		{Case: plain, Contender: KubeScheduler, Number: 1, Time: at, Figures: figures(300, 280, 4*time.Millisecond, 2*time.Second)},
		{Case: plain, Contender: Berth, Number: 2, Time: at, Figures: figures(1100, 770, 400*time.Microsecond, time.Second)},
		{Case: plain, Contender: Berth, Number: 3, Time: at, Figures: figures(1000, 630, 600*time.Microsecond, 3*time.Second), LostEvents: 2},
		{Case: plain, Contender: KubeScheduler, Number: 2, Time: at, Failure: "ended after 3 of 10 pods"},
		{Case: basic, Contender: Berth, Number: 1, Time: at, Figures: figures(800, 800, time.Millisecond, time.Second)},
		{Case: basic, Contender: Binder, Number: 1, Time: at, Figures: basicBinder},
		{Case: restart, Contender: Lister, Number: 1, Time: at, Figures: Figures{CPUPerPod: 20 * time.Millisecond, FirstBind: time.Second, PeakBytes: 300 << 20}},
		{Case: restart, Contender: Berth, Number: 1, Time: at, Figures: Figures{CPUPerPod: 30 * time.Millisecond, FirstBind: 1500 * time.Millisecond, PeakBytes: 400 << 20}},
	}
}

const table = `SHAPE             PODS/S  BINDER  KUBE-S.  +EVENTS  BINDER  KUBE-S.  CPU/POD  KUBE-S.  API CPU/POD  FIRST    P50     P99   MEMORY
plain: 5,000 nodes, 30,000 pods running, 10 pending
  binder            1000   100 %     3.3x      700   100 %     2.5x  0.20 ms    0.05x      2.00 ms  1.0 s  1.0 s  12.0 s  150 MiB
  kube-scheduler     300    30 %     1.0x      280    40 %     1.0x  4.00 ms     1.0x      2.00 ms  2.0 s  1.0 s  12.0 s  150 MiB
  berth             1000   100 %     3.3x      700   100 %     2.5x  0.40 ms    0.10x      2.00 ms  1.0 s  1.0 s  12.0 s  150 MiB

WORKLOAD  PODS/S  BINDER  KUBE-S.  +EVENTS  BINDER  KUBE-S.  CPU/POD  KUBE-S.  API CPU/POD  FIRST    P50     P99   MEMORY
SchedulingBasic/5000Nodes_10000Pods: 5,000 nodes, 1,000 pods before, 10,000 created, floor 680
  binder     900   100 %        -      850   100 %        -  0.20 ms        -      1.50 ms  1.0 s  1.0 s  12.0 s  150 MiB
  berth      800    89 %        -      800    94 %        -  1.00 ms        -      2.00 ms  1.0 s  1.0 s  12.0 s  150 MiB

RESTART   FIRST BIND  LISTER    CPU   MEMORY
Restart/100000Running: 5,000 nodes, 100,000 pods running
  lister       1.0 s    1.0x  2.0 s  300 MiB
  berth        1.5 s    1.5x  3.0 s  400 MiB

FAILED  plain (5000 nodes, 30000 before): kube-scheduler: ended after 3 of 10 pods
plain (5000 nodes, 30000 before): berth wrote no Scheduled event for 2 pods; +EVENTS counts until its last event

ExtendedResource/Explicit_25classes_5000pods_500nodes: not run: needs devices
SchedulingCSIPVs/5000Nodes_5000Pods: not run by berth: needs volumes
`

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, Summarise(rounds()), []NotRun{{Name: "ExtendedResource/Explicit_25classes_5000pods_500nodes", Needs: "devices"}, {Name: "SchedulingCSIPVs/5000Nodes_5000Pods", Needs: "volumes", Who: Berth}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestParkedPodsAreSummedUp(t *testing.T) {
	var parked []Round
	for name, rates := range map[string]map[int]float64{"ParkedChurn/x": {0: 1000, 10000: 950}, "HopelessPreemptors/x": {15000: 1000, 18000: 990}} {
		for before, rate := range rates {
			parked = append(parked, Round{Case: Case{Kind: "workload", Name: name, Before: before}, Contender: Berth, Figures: Figures{PodsPerSecond: rate}})
		}
	}
	var b strings.Builder
	if err := Table(&b, Summarise(parked), nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"10,000 parked pods, churned by updates of nodes, take 5.0 % of the rate of berth",
		"3,000 pods that fit nowhere and can preempt nobody take 1.0 % of the rate of berth",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", b.String(), want)
		}
	}
}

func TestCSVGoesBothWays(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCSV(&b, rounds()); err != nil {
		t.Fatal(err)
	}
	read, err := ReadCSV(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rounds(), read); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesInCSV(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCSV(&b, rounds()[:1]); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "the first line must be"},
		{"other columns", "a,b\n1,2\n", "the first line must be"},
		{"not a number", strings.Replace(b.String(), ",5000,", ",many,", 1), `line 2: nodes "many"`},
		{"short", b.String() + "shape,plain\n", "wrong number of fields"},
	} {
		if _, err := ReadCSV(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q in it", test.name, err, test.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, test := range []struct {
		of      []time.Duration
		percent int
		want    time.Duration
	}{
		{nil, 50, 0}, {[]time.Duration{7}, 99, 7}, {[]time.Duration{3, 1, 2}, 50, 2}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100},
	} {
		if got := Percentile(test.of, test.percent); got != test.want {
			t.Errorf("%d %% of %v: %d, want %d", test.percent, test.of, got, test.want)
		}
	}
}

func TestMedianOfTwo(t *testing.T) {
	two := Summarise(rounds()[:1])[0]
	if two.Contenders[0].Median.PodsPerSecond != 900 {
		t.Errorf("median of one: %v", two.Contenders[0].Median.PodsPerSecond)
	}
	s := Summarise([]Round{rounds()[0], rounds()[3]})[0].Contenders[0]
	if s.Median.PodsPerSecond != 1000 || s.Least != 900 || s.Most != 1100 {
		t.Errorf("of 900 and 1100: median %v, least %v, most %v", s.Median.PodsPerSecond, s.Least, s.Most)
	}
}

func TestObjectLeavesOutWhatCannotBeCompared(t *testing.T) {
	d := Object(Machine{CPUs: 2, OS: "linux/amd64", Go: "go1", Date: "2026-11-20"}, Summarise(rounds()), nil)
	berth := d.Cases[0].Contenders[2]
	if berth.Name != Berth || berth.OfBinder.PodsPerSecond != 1 || berth.OfKubeScheduler.CPUPerPod != 0.1 || berth.OfLister != (Ratios{}) {
		t.Errorf("got %+v", berth)
	}
	if got, want := d.Machine.String(), "2026-11-20, 2 CPUs, linux/amd64, go1"; got != want {
		t.Errorf("the machine is %q, want %q", got, want)
	}
}

// TestChart reads the picture as XML. Each bar is within it, and each contender with a
// rate has a bar in each case.
func TestChart(t *testing.T) {
	var b strings.Builder
	if err := Chart(&b, Summarise(rounds())); err != nil {
		t.Fatal(err)
	}
	bars := 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "rect" {
			bars++
			at := map[string]int{}
			for _, a := range element.Attr {
				if n, err := strconv.Atoi(a.Value); err == nil {
					at[a.Name.Local] = n
				}
			}
			if at["x"]+at["width"] > chartWide || at["width"] < 1 {
				t.Errorf("a bar from %d, %d wide, leaves a picture of %d", at["x"], at["width"], chartWide)
			}
		}
	}
	if want := 3 + 5; bars != want { // three more in the legend
		t.Errorf("%d bars, want %d", bars, want)
	}
}

func TestAmountsInWords(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{count(7), "7"}, {count(1234567), "1,234,567"}, {times(0.123), "0.12x"}, {times(3.14), "3.1x"}, {times(31.4), "31x"}, {times(0), "-"},
		{seconds(120 * time.Millisecond), "0.12 s"}, {percent(0.805), "80 %"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
