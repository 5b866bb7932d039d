// Package report turns measured rounds into tables, CSV and a chart.
//
// It takes rounds. It returns summaries (medians and ratios), a table, JSON and YAML, CSV
// with every round, and a chart as SVG. It owns the names and the rounding of figures. It
// never measures.
package report

import (
	"slices"
	"time"
)

// The names of the contenders.
const (
	Binder        = "binder"
	KubeScheduler = "kube-scheduler"
	Berth         = "berth"
	Lister        = "lister"
)

// Case is one scene at one size.
type Case struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Nodes  int    `json:"nodes"`
	Before int    `json:"before"` // pods that existed before
	Pods   int    `json:"pods"`   // pods to place
	// Floor is the rate, in pods/s at full size, below which upstream's CI fails, or 0.
	Floor int `json:"floor,omitempty"`
}

// Figures are the measurements of a round. A figure that does not apply is 0.
type Figures struct {
	PodsPerSecond   float64       // from the first binding to the last
	WithEvents      float64       // pods/s from the first binding until the last event is written
	CPUPerPod       time.Duration // of the contender
	ServerCPUPerPod time.Duration // of etcd and the API server
	FirstBind       time.Duration // from the start of the contender
	P50, P99        time.Duration // until a pod was bound
	PeakBytes       int64
}

// Round is one contender's turn at a case.
type Round struct {
	Case      Case
	Contender string
	Number    int // from 1
	Time      time.Time
	Figures   Figures
	// LostEvents counts pods without a Scheduled event.
	LostEvents int
	// Failure is the reason why the round has no figures.
	Failure string
}

// NotRun is a requested case that cannot be run.
type NotRun struct {
	Name  string `json:"name"`
	Needs string `json:"needs"`
	// Who is the contender that takes no part, or empty if that holds for all.
	Who string `json:"who,omitempty"`
}

// Summary has all rounds of a case.
type Summary struct {
	Case       Case
	Contenders []Standing
}

// Standing is a contender's result in a case.
type Standing struct {
	Name       string
	Rounds     int // with figures
	Failures   []string
	LostEvents int
	// Median has the medians of all figures over the rounds; Least and Most are of the
	// rate.
	Median      Figures
	Least, Most float64
}

// Summarise returns a summary of each case, with cases and contenders in order of first
// appearance.
func Summarise(rounds []Round) []Summary {
	var summaries []Summary
	for _, c := range casesOf(rounds) {
		s := Summary{Case: c}
		var names []string
		of := map[string][]Round{}
		for _, r := range rounds {
			if r.Case != c {
				continue
			}
			if !slices.Contains(names, r.Contender) {
				names = append(names, r.Contender)
			}
			of[r.Contender] = append(of[r.Contender], r)
		}
		slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
		for _, name := range names {
			s.Contenders = append(s.Contenders, standing(name, of[name]))
		}
		summaries = append(summaries, s)
	}
	return summaries
}

// rank puts the contenders first that others are compared with, because the order of
// turns changes from round to round.
func rank(contender string) int {
	order := []string{Lister, Binder, KubeScheduler}
	if i := slices.Index(order, contender); i >= 0 {
		return i
	}
	return len(order)
}

func casesOf(rounds []Round) []Case {
	var cases []Case
	for _, r := range rounds {
		if !slices.Contains(cases, r.Case) {
			cases = append(cases, r.Case)
		}
	}
	return cases
}

func standing(name string, rounds []Round) Standing {
	s := Standing{Name: name}
	var good []Figures
	for _, r := range rounds {
		if r.Failure != "" {
			s.Failures = append(s.Failures, r.Failure)
			continue
		}
		good = append(good, r.Figures)
		s.LostEvents = max(s.LostEvents, r.LostEvents)
	}
	s.Rounds = len(good)
	if len(good) == 0 {
		return s
	}
	rate := func(f Figures) float64 { return f.PodsPerSecond }
	s.Median = Figures{
		PodsPerSecond:   median(good, rate),
		WithEvents:      median(good, func(f Figures) float64 { return f.WithEvents }),
		CPUPerPod:       median(good, func(f Figures) time.Duration { return f.CPUPerPod }),
		ServerCPUPerPod: median(good, func(f Figures) time.Duration { return f.ServerCPUPerPod }),
		FirstBind:       median(good, func(f Figures) time.Duration { return f.FirstBind }),
		P50:             median(good, func(f Figures) time.Duration { return f.P50 }),
		P99:             median(good, func(f Figures) time.Duration { return f.P99 }),
		PeakBytes:       median(good, func(f Figures) int64 { return f.PeakBytes }),
	}
	s.Least, s.Most = good[0].PodsPerSecond, good[0].PodsPerSecond
	for _, f := range good {
		s.Least, s.Most = min(s.Least, f.PodsPerSecond), max(s.Most, f.PodsPerSecond)
	}
	return s
}

// number is the type of a figure.
type number interface {
	~int64 | ~float64
}

// median returns the middle value, or the mean of the two middle values of an even
// number.
func median[N number](of []Figures, figure func(Figures) N) N {
	var values []N
	for _, f := range of {
		values = append(values, figure(f))
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

// Percentile returns the smallest duration that is not exceeded by the given percentage
// of durations, or 0 without any. It sorts them.
func Percentile(durations []time.Duration, percent int) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return durations[max(0, (len(durations)*percent+99)/100-1)]
}

// find returns the contender of that name if it has figures.
func (s *Summary) find(name string) (Standing, bool) {
	i := slices.IndexFunc(s.Contenders, func(c Standing) bool { return c.Name == name && c.Rounds > 0 })
	if i < 0 {
		return Standing{}, false
	}
	return s.Contenders[i], true
}

// ratio returns one contender's figure divided by another's, or 0 if either is missing.
func (s *Summary) ratio(name, other string, figure func(Figures) float64) float64 {
	a, known := s.find(name)
	b, also := s.find(other)
	if !known || !also || figure(b.Median) == 0 {
		return 0
	}
	return figure(a.Median) / figure(b.Median)
}

func rate(f Figures) float64       { return f.PodsPerSecond }
func withEvents(f Figures) float64 { return f.WithEvents }
func cpu(f Figures) float64        { return float64(f.CPUPerPod) }
func first(f Figures) float64      { return float64(f.FirstBind) }
