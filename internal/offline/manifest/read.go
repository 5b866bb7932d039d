package manifest

import (
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options are the options of reading. The zero value reports no progress.
type Options struct {
	// Progress, if set, is called regularly and at the end with the number of decoded
	// bytes. Calls do not overlap, and done never decreases. Goroutines of Read wait for
	// the calls, so Progress should be quick.
	Progress func(done, total int64)
	// Base, if set, is a cluster to which the files are added. An object of the files
	// replaces the object of Base with the same kind, namespace and name. Values that
	// depend on other objects, such as priorities, are derived from both. Read takes
	// ownership of the objects of Base.
	Base *Cluster
	// Namespace is the namespace of objects that name none; nil means "default".
	Namespace *Namespace
	// Customs are the kinds of custom resources with pod templates. Their objects are
	// added to Cluster.Customs instead of being skipped.
	Customs []schema.GroupKind
}

// Namespace is the namespace for objects that name none.
type Namespace struct {
	Name string
	// Only means that an object of another namespace is a mistake.
	Only bool
}

// Read reads a cluster from files, directories and, for "-", stdin, in the order given. A
// file that is named twice is read once. The error joins an *[Error] per mistake, up to a
// limit. With an error, the cluster is nil.
func Read(files []string, stdin io.Reader) (*Cluster, error) {
	return Options{}.Read(files, stdin)
}

// Decode reads a cluster from bytes; errors contain name as the file.
func Decode(name string, data []byte) (*Cluster, error) {
	return Options{}.decode([]source{{name: name, given: name, data: data}}, nil)
}

// Read is the function Read with options.
func (o Options) Read(files []string, stdin io.Reader) (*Cluster, error) {
	var errs []*Error
	if len(files) == 0 {
		errs = append(errs, &Error{File: "-f", Problem: "no file is given; name files, directories or - for standard input"})
	}
	var sources []source
	for _, s := range expand(files, &errs) {
		opened, err := open(s, stdin)
		if err != nil {
			errs = append(errs, &Error{File: s.name, Problem: fmt.Sprintf("cannot be read: %s", reason(err))})
			continue
		}
		sources = append(sources, opened...)
	}
	return o.decode(sources, errs)
}

// decode builds a cluster from sources, unless errs has any.
func (o Options) decode(sources []source, errs []*Error) (*Cluster, error) {
	m := &meter{tell: o.Progress}
	g := newGathering(errs)
	var docs []document
	var first []int
	for _, s := range sources {
		m.total += int64(len(s.data))
		first = append(first, len(docs))
		found, noise := documents(s.name, s.data)
		g.noise(s.name, noise)
		for i := range found {
			found[i].each(func(u *unit) { u.into, u.found, u.customs = o.Namespace, s.found, o.Customs })
		}
		docs = append(docs, found...)
	}
	results := decodeAll(docs, m)
	m.end()
	for i, s := range sources {
		end := len(results)
		if i+1 < len(sources) {
			end = first[i+1]
		}
		g.takeFile(s, results[first[i]:end])
	}
	g.foundNothing(sources)
	if err := join(g.errs); err != nil {
		return nil, err
	}
	g.remark()
	if o.Base != nil {
		g.addBase(o.Base)
	}
	g.cluster.fillAcross()
	return g.cluster, nil
}

// takeFile merges the results of one file.
func (g *gathering) takeFile(s source, results []result) {
	found := false
	nodes, pods := len(g.cluster.Nodes), len(g.cluster.Pods)
	given := &g.cluster.Given
	if last := len(*given) - 1; last < 0 || (*given)[last].Name != s.given {
		*given = append(*given, Given{Name: s.given})
	}
	for _, r := range results {
		found = found || len(r.objects)+len(r.skipped)+len(r.errs) > 0
		g.take(r)
	}
	g.holding[s.given] = g.holding[s.given] || found
	if !found && !s.found {
		g.errs = append(g.errs, &Error{File: s.name, Problem: "holds no object; " + wantObjects})
	}
	last := &(*given)[len(*given)-1]
	last.Nodes, last.Pods = append(last.Nodes, g.cluster.Nodes[nodes:]...), append(last.Pods, g.cluster.Pods[pods:]...)
}

// wantObjects is the remedy for an input without objects.
const wantObjects = "want Kubernetes objects in YAML or JSON, as kubectl get -o yaml prints them"

// foundNothing reports directories and archives without any object. Single files in them
// may have none, because dumps contain other files too.
func (g *gathering) foundNothing(sources []source) {
	for _, s := range sources {
		if _, known := g.holding[s.given]; known && s.found && !g.holding[s.given] {
			g.errs = append(g.errs, &Error{File: s.given, Problem: "no file in it holds an object; " + wantObjects})
			delete(g.holding, s.given) // Report it once.
		}
	}
}

// meter counts decoded bytes and reports progress.
type meter struct {
	mu                sync.Mutex
	tell              func(done, total int64)
	done, told, total int64
}

// add adds n bytes.
func (m *meter) add(n int) {
	const step = 1 << 18 // small enough for a progress bar, large enough to cost nothing
	if m.tell == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += int64(n)
	if m.done-m.told >= step && m.done < m.total {
		m.told = m.done
		m.tell(m.done, m.total)
	}
}

// end reports the end.
func (m *meter) end() {
	if m.tell != nil {
		m.tell(m.total, m.total)
	}
}
