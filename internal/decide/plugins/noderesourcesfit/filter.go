package noderesourcesfit

import (
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// A verdict is a set of shortages: a bit for each fixed check and for each scalar of the
// need, in the order of the reasons.
const (
	tooManyPods reason.Code = 1 << iota
	noCPU
	noMemory
	noEphemeral
	firstScalar

	fixedBits = 4
	// The highest bits of a code are reason.Unresolvable and reason.Failed.
	maxScalars = 30 - fixedBits
)

// FilterNeed returns the part of the pod's requests that the filter checks. It is never
// nil, because every pod counts towards the number of pods.
func (p *Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	return (*asks)(p.checked(&pod.Asks))
}

// checked returns the amounts without the resources that the arguments ignore.
func (p *Plugin) checked(all *model.Resources) *model.Resources {
	ignored := func(s model.Scalar) bool { return p.ignores(s.Name) }
	if !slices.ContainsFunc(all.Scalars, ignored) {
		return all
	}
	checked := *all
	checked.Scalars = slices.DeleteFunc(slices.Clone(checked.Scalars), ignored)
	return &checked
}

// VaryingFilterNeed returns the need of a pod that requests an extended resource provided
// by a class. On nodes without the resource, devices of the class are used.
func (p *Plugin) VaryingFilterNeed(v state.View, pod *model.Pod) (need plugin.FilterNeed, varies bool) {
	if classes := v.Devices(); pod.Asks.AreDevices(classes) {
		return &delegating{p.FilterNeed(pod).(*asks), classes}, true
	}
	return nil, false
}

// delegating are the amounts to check. Some nodes leave some of them to DynamicResources.
type delegating struct {
	*asks
	classes model.ClassResolver
}

func (d *delegating) AppendText(text []byte) []byte {
	text = d.asks.AppendText(text)
	d.eachScalar(func(s model.Scalar) {
		text = strconv.AppendBool(append(text, ' '), d.classes.ClassFor(s.Name) != nil)
	})
	return text
}

// Compile returns verdicts that depend on more than requests.
func (d *delegating) Compile() *plugin.Verdicts {
	return &plugin.Verdicts{NodeVerdicts: d.compile(d.classes).NodeVerdicts}
}

// asks are the amounts to check.
type asks model.Resources

func (a *asks) AppendText(text []byte) []byte {
	text = strconv.AppendInt(text, a.CPUMilli, 10)
	text = strconv.AppendInt(append(text, ' '), a.MemoryBytes, 10)
	text = strconv.AppendInt(append(text, ' '), a.EphemeralBytes, 10)
	a.eachScalar(func(s model.Scalar) {
		text = model.AppendQuote(append(text, ' '), s.Name.Value())
		text = strconv.AppendInt(text, s.Value, 10)
	})
	return text
}

// eachScalar yields the scalars with an amount, by name.
func (a *asks) eachScalar(yield func(model.Scalar)) {
	for _, s := range a.Scalars { // sorted by name
		if s.Value != 0 {
			yield(s)
		}
	}
}

// Compile copies the amounts to check.
func (a *asks) Compile() *plugin.Verdicts { return a.compile(nil) }

// compile copies the amounts to check, and records which of them devices can provide.
func (a *asks) compile(classes model.ClassResolver) *plugin.Verdicts {
	f := filter{
		cpuMilli:       demandOf(a.CPUMilli, noCPU),
		memoryBytes:    demandOf(a.MemoryBytes, noMemory),
		ephemeralBytes: demandOf(a.EphemeralBytes, noEphemeral),
		request:        model.Resources{CPUMilli: a.CPUMilli, MemoryBytes: a.MemoryBytes, EphemeralBytes: a.EphemeralBytes},
	}
	if len(a.Scalars) > maxScalars {
		f.scalars, f.request.Scalars = make([]scalarDemand, 0, len(a.Scalars)), make([]model.Scalar, 0, len(a.Scalars))
	}
	a.eachScalar(func(s model.Scalar) {
		devices := classes != nil && classes.ClassFor(s.Name) != nil
		f.scalars = append(f.scalars, scalarDemand{demandOf(s.Value, firstScalar<<len(f.scalars)), s.Name, devices})
		f.request.Scalars = append(f.request.Scalars, s)
	})
	if len(f.scalars) > maxScalars {
		w := widened(f)
		w.verdicts = plugin.Verdicts{NodeVerdicts: w, Request: &w.request}
		return &w.verdicts
	}
	f.verdicts = plugin.Verdicts{NodeVerdicts: &f, Request: &f.request}
	if len(f.scalars) == 0 {
		f.verdicts.Amounts = &f
	}
	return &f.verdicts
}

// filter is a need with few enough scalars for a bit each in a verdict.
type filter struct {
	cpuMilli, memoryBytes, ephemeralBytes demand
	// Without zeros and ignored ones, sorted by name.
	scalars []scalarDemand
	// request is the amounts of all demands.
	request  model.Resources
	verdicts plugin.Verdicts
}

// Filter checks everything, even after a failed check.
func (f *filter) Filter(node state.Node) reason.Code {
	size, used := node.Model(), node.Used()
	code := f.fixed(size, used, node.PodCount())
	for i := range f.scalars {
		code |= f.scalars[i].shortage(size, used)
	}
	return code
}

// fixed checks the number of pods and the three resources that are fields.
func (f *filter) fixed(size *model.Node, used *model.Resources, pods int) reason.Code {
	return tooManyPods&ifNegative(size.AllowedPods-int64(pods)-1) |
		f.cpuMilli.shortage(size.Allocatable.CPUMilli, used.CPUMilli) |
		f.memoryBytes.shortage(size.Allocatable.MemoryBytes, used.MemoryBytes) |
		f.ephemeralBytes.shortage(size.Allocatable.EphemeralBytes, used.EphemeralBytes)
}

// demand is an amount with the bit of its shortage. An amount of 0 has no bit: a pod that
// requests none fits even if free space is negative, as on a node that has shrunk.
// Amounts are never negative; see package amount.
type demand struct {
	asked int64
	bit   reason.Code
}

func demandOf(asked int64, bit reason.Code) demand {
	if asked <= 0 {
		return demand{}
	}
	return demand{asked, bit}
}

// shortage compares with a node's amounts. If even an empty node is too small, the
// shortage is unresolvable. Neither size nor used is negative, so their difference does
// not overflow.
func (d demand) shortage(size, used int64) reason.Code {
	return d.bit&ifLess(size-used, d.asked) | reason.Unresolvable&ifNegative(size-d.asked)
}

// ifLess returns a mask of ones if a < b, even if a - b overflows, as for very large
// requests.
func ifLess(a, b int64) reason.Code {
	d := a - b
	return ifNegative(d ^ (a^b)&(d^a))
}

// ifNegative returns a mask of ones for negative numbers. This code has no branches
// because verdicts of neighbouring nodes differ, and a mispredicted branch costs more
// than all the arithmetic.
func ifNegative(n int64) reason.Code { return reason.Code(n >> 63) }

type scalarDemand struct {
	demand
	name model.ResourceName
	// devices means that devices provide the resource on nodes without it.
	devices bool
}

func (d *scalarDemand) shortage(size *model.Node, used *model.Resources) reason.Code {
	allocatable := size.Allocatable.Scalar(d.name)
	if d.devices && allocatable <= 0 {
		return reason.None
	}
	return d.demand.shortage(allocatable, used.Scalar(d.name))
}

// Reasons lists the shortages: pods, cpu, memory, ephemeral-storage, then scalars by
// name.
func (f *filter) Reasons(code reason.Code) []string {
	var texts []string
	for bit := range fixedBits + len(f.scalars) {
		if code&(1<<bit) != 0 {
			texts = append(texts, f.text(bit))
		}
	}
	return texts
}

var fixedTexts = [fixedBits]string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}

const insufficient = "Insufficient "

func (f *filter) text(bit int) string {
	if bit < fixedBits {
		return fixedTexts[bit]
	}
	return insufficient + f.scalars[bit-fixedBits].name.Value()
}
