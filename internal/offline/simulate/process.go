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

// process is what plugins from outside use of a scheduler process. Any goroutine may use it; the loop's outbox is used under mu.
type process struct {
	commit.Guarded
	ingest *ingest.Ingest

	mu  sync.Mutex
	now time.Time // virtual
	did bool      // plugins have done something that the cluster has not looked at yet
}

func newProcess(c *Cluster, outbox *commit.Outbox) *process {
	p := &process{now: c.now}
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

// acted reports whether plugins have done something, and takeActs forgets it.
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

// Bindings are the pods that wait at Permit or are at PreBind in the present process. Any goroutine may ask for them and use them; what that causes happens in the
// next Step.
func (c *Cluster) Bindings() *commit.Guarded { return &c.live.Load().Guarded }

// Activate has pods tried at once that wait for their turn. Any goroutine may call it. It reports whether there was room for the request.
func (c *Cluster) Activate(pods ...model.PodKey) bool {
	p := c.live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = true
	return p.ingest.Activate(pods...)
}

// Nominate has the state note a pod's nomination. Any goroutine may call it. It reports whether there was room for the request.
func (c *Cluster) Nominate(request model.NominationRequest) bool {
	p := c.live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = true
	return p.ingest.Nominate(request)
}

// InFlight returns the number of requests without an answer, those of a process that was
// killed included.
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
