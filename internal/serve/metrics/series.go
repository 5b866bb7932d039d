package metrics

import (
	"fmt"

	"k8s.io/component-base/metrics"
)

// series describes one family of series.
type series struct {
	// name is the name without the prefix of its table.
	name      string
	kind      kind
	stability metrics.StabilityLevel
	help      string
	labels    []string
	buckets   []float64
	// gate is the feature gate that the family needs; "" if none.
	gate string
	// deprecated is the version since which the family is deprecated; "" if it is not.
	// Deprecated alpha series are hidden.
	deprecated string
}

type kind uint8

const (
	counter kind = iota
	gauge
	histogram
)

// Description describes a family of series.
type Description struct {
	// Name is the full name. Type is counter, gauge or histogram.
	Name, Type, Help string
	Labels           []string
	// Gate is the feature gate that the family needs; empty if none.
	Gate string
}

// Descriptions returns all families in the order of the tables, also those that have no
// member yet, or whose gate is off.
func Descriptions() (all []Description) {
	types := [...]string{counter: "counter", gauge: "gauge", histogram: "histogram"}
	for _, table := range tables() {
		for i := range table.rows {
			s := &table.rows[i]
			all = append(all, Description{Name: table.prefix + s.name, Type: types[s.kind], Help: s.help, Labels: s.labels, Gate: s.gate})
		}
	}
	return all
}

// table has the families with a common prefix.
type table struct {
	prefix string
	rows   []series
}

// tables returns all families.
func tables() []table {
	return []table{{schedulerPrefix, schedulerSeries()}, {"", claimSeries()}, {berthPrefix, berthSeries()}}
}

// exponential returns count buckets, each the previous one times factor.
func exponential(start, factor float64, count int) []float64 {
	return metrics.ExponentialBuckets(start, factor, count)
}

// by lists the labels of a family.
func by(names ...string) []string { return names }

// families are the registered families by full name. Each family is in the map of its
// type, with or without labels.
type families struct {
	counters      map[string]*metrics.Counter
	counterVecs   map[string]*metrics.CounterVec
	gaugeVecs     map[string]*metrics.GaugeVec
	gauges        map[string]*metrics.Gauge
	histograms    map[string]*metrics.Histogram
	histogramVecs map[string]*metrics.HistogramVec
	all           []metrics.Registerable
}

func newFamilies() *families {
	return &families{
		counters: map[string]*metrics.Counter{}, counterVecs: map[string]*metrics.CounterVec{},
		gauges: map[string]*metrics.Gauge{}, gaugeVecs: map[string]*metrics.GaugeVec{},
		histograms: map[string]*metrics.Histogram{}, histogramVecs: map[string]*metrics.HistogramVec{},
	}
}

// add builds the family of a table's row.
func (f *families) add(prefix string, s *series) {
	name := prefix + s.name
	switch s.kind {
	case counter:
		f.addCounter(name, s)
	case gauge:
		f.addGauge(name, s)
	case histogram:
		f.addHistogram(name, s)
	default:
		panic(fmt.Sprintf("metrics: %s has the unknown kind %d", name, s.kind))
	}
}

func (f *families) addCounter(name string, s *series) {
	opts := &metrics.CounterOpts{Name: name, Help: s.help, StabilityLevel: s.stability, DeprecatedVersion: s.deprecated}
	if len(s.labels) == 0 {
		f.counters[name] = metrics.NewCounter(opts)
		f.all = append(f.all, f.counters[name])
		return
	}
	f.counterVecs[name] = metrics.NewCounterVec(opts, s.labels)
	f.all = append(f.all, f.counterVecs[name])
}

func (f *families) addGauge(name string, s *series) {
	opts := &metrics.GaugeOpts{Name: name, Help: s.help, StabilityLevel: s.stability, DeprecatedVersion: s.deprecated}
	if len(s.labels) == 0 {
		f.gauges[name] = metrics.NewGauge(opts)
		f.all = append(f.all, f.gauges[name])
		return
	}
	f.gaugeVecs[name] = metrics.NewGaugeVec(opts, s.labels)
	f.all = append(f.all, f.gaugeVecs[name])
}

func (f *families) addHistogram(name string, s *series) {
	opts := &metrics.HistogramOpts{Name: name, Help: s.help, StabilityLevel: s.stability, DeprecatedVersion: s.deprecated, Buckets: s.buckets}
	if len(s.labels) == 0 {
		f.histograms[name] = metrics.NewHistogram(opts)
		f.all = append(f.all, f.histograms[name])
		return
	}
	f.histogramVecs[name] = metrics.NewHistogramVec(opts, s.labels)
	f.all = append(f.all, f.histogramVecs[name])
}
