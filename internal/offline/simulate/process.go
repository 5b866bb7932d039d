package simulate

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
)

// process is the part of a scheduler process that external plugins use. It is safe for
// concurrent use; the loop's outbox is used under mu.
type process struct {
	commit.Guarded
	ingest *ingest.Ingest

	mu  sync.Mutex
	now time.Time // virtual
	did bool      // plugins have acted, and the cluster has not handled it yet
}

func newProcess(c *Cluster, changes *ingest.Ingest, outbox *commit.Outbox) *process {
	p := &process{ingest: changes, now: c.now}
	p.Update = func(change func(o *commit.Outbox, now time.Time)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		change(outbox, p.now)
		p.did = true
	}
	p.Read = func(look func(o *commit.Outbox)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		look(outbox)
	}
	return p
}

// acted reports whether plugins have acted; takeActs also resets this.
func (p *process) acted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did
}

func (p *process) takeActs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	did := p.did
	p.did = false
	return did
}

// Bindings returns the pods that wait at Permit or are at PreBind in the present process.
// It is safe for concurrent use. The effects of its use happen in the next Step.
func (c *Cluster) Bindings() *commit.Guarded { return &c.live.Load().Guarded }

// Activate requests an immediate attempt for waiting pods. It is safe for concurrent use.
// It reports whether the request was accepted.
func (c *Cluster) Activate(pods ...model.PodKey) bool {
	p := c.live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = true
	return p.ingest.Activate(pods...)
}

// Nominate requests that the state records a pod's nomination. It is safe for concurrent
// use. It reports whether the request was accepted.
func (c *Cluster) Nominate(request model.NominationRequest) bool {
	p := c.live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = true
	return p.ingest.Nominate(request)
}

// InFlight returns the number of requests without an answer, including those of a killed
// process.
func (c *Cluster) InFlight() int { return c.commit.inFlight }

// audit checks the outbox.
func (m *committer) audit() (err error) {
	m.use(func(o *commit.Outbox) { err = o.Audit() })
	return err
}

// endCalls ends the contexts of the calls that are run, as the end of a process does.
func (m *committer) endCalls() {
	for _, order := range slices.Sorted(maps.Keys(m.contexts)) {
		m.contexts[order](errors.New("the process has ended"))
	}
	clear(m.contexts)
}
