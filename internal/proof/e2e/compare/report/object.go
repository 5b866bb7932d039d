package report

import (
	"fmt"
	"math"
)

// Document has all results, for JSON and YAML.
type Document struct {
	Machine Machine      `json:"machine"`
	Cases   []CaseObject `json:"cases"`
	NotRun  []NotRun     `json:"notRun,omitempty"`
}

// Machine describes the machine of the rounds.
type Machine struct {
	CPUs      int    `json:"cpus"`
	CPU       string `json:"cpu,omitempty"`
	MemoryGiB int    `json:"memoryGiB,omitempty"`
	OS        string `json:"os"`
	Go        string `json:"go"`
	Date      string `json:"date"`
}

// CaseObject is a case with its contenders.
type CaseObject struct {
	Case       `json:",inline"`
	Contenders []ContenderObject `json:"contenders"`
}

// ContenderObject has a contender's medians. Ratios without a counterpart are left out.
type ContenderObject struct {
	Name               string   `json:"name"`
	Rounds             int      `json:"rounds"`
	PodsPerSecond      float64  `json:"podsPerSecond"`
	PodsPerSecondMin   float64  `json:"podsPerSecondMin"`
	MaxPodsPerSecond   float64  `json:"podsPerSecondMax"`
	WithEvents         float64  `json:"podsPerSecondWithEvents"`
	CPUMillisPerPod    float64  `json:"cpuMillisPerPod"`
	ServerMillisPerPod float64  `json:"serverCPUMillisPerPod"`
	FirstBindSeconds   float64  `json:"firstBindSeconds"`
	P50Seconds         float64  `json:"p50Seconds"`
	P99Seconds         float64  `json:"p99Seconds"`
	PeakMiB            float64  `json:"peakMiB"`
	LostEvents         int      `json:"lostEvents,omitempty"`
	OfBinder           Ratios   `json:"ofBinder,omitzero"`
	OfKubeScheduler    Ratios   `json:"ofKubeScheduler,omitzero"`
	OfLister           Ratios   `json:"ofLister,omitzero"`
	Failures           []string `json:"failures,omitempty"`
}

// Ratios are a contender's figures divided by another's.
type Ratios struct {
	PodsPerSecond float64 `json:"podsPerSecond,omitempty"`
	WithEvents    float64 `json:"podsPerSecondWithEvents,omitempty"`
	CPUPerPod     float64 `json:"cpuPerPod,omitempty"`
	FirstBind     float64 `json:"firstBind,omitempty"`
}

// Object returns the summaries as a Document.
func Object(machine Machine, summaries []Summary, notRun []NotRun) Document {
	d := Document{Machine: machine, Cases: []CaseObject{}, NotRun: notRun}
	for _, s := range summaries {
		object := CaseObject{Case: s.Case, Contenders: []ContenderObject{}}
		for _, c := range s.Contenders {
			m := c.Median
			object.Contenders = append(object.Contenders, ContenderObject{
				Name: c.Name, Rounds: c.Rounds,
				PodsPerSecond: thousandths(m.PodsPerSecond), PodsPerSecondMin: thousandths(c.Least), MaxPodsPerSecond: thousandths(c.Most), WithEvents: thousandths(m.WithEvents),
				CPUMillisPerPod: inMilliseconds(m.CPUPerPod), ServerMillisPerPod: inMilliseconds(m.ServerCPUPerPod),
				FirstBindSeconds: thousandths(m.FirstBind.Seconds()), P50Seconds: thousandths(m.P50.Seconds()), P99Seconds: thousandths(m.P99.Seconds()),
				PeakMiB: thousandths(float64(m.PeakBytes) / (1 << 20)), LostEvents: c.LostEvents, Failures: c.Failures,
				OfBinder: s.ratios(c.Name, Binder), OfKubeScheduler: s.ratios(c.Name, KubeScheduler), OfLister: s.ratios(c.Name, Lister),
			})
		}
		d.Cases = append(d.Cases, object)
	}
	return d
}

// thousandths rounds to the precision of the measurements.
func thousandths(f float64) float64 { return math.Round(1000*f) / 1000 }

func (s *Summary) ratios(name, other string) Ratios {
	if name == other {
		return Ratios{}
	}
	return Ratios{
		PodsPerSecond: thousandths(s.ratio(name, other, rate)), WithEvents: thousandths(s.ratio(name, other, withEvents)),
		CPUPerPod: thousandths(s.ratio(name, other, cpu)), FirstBind: thousandths(s.ratio(name, other, first)),
	}
}

// String returns the description in one line.
func (m Machine) String() string {
	text := fmt.Sprintf("%s, %d CPUs", m.Date, m.CPUs)
	if m.CPU != "" {
		text += " (" + m.CPU + ")"
	}
	if m.MemoryGiB > 0 {
		text += fmt.Sprintf(", %d GiB", m.MemoryGiB)
	}
	return text + ", " + m.OS + ", " + m.Go
}
