package framework

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"
)

// PluginFactory makes a plugin for one profile. It is called once for each profile that enables the plugin, before the scheduler takes part in an
// election, and may block until ctx ends, which it does when the scheduler stops. args are
//
//   - an object of the internal version if a scheme has the type <Name>Args of group kubescheduler.config.k8s.io there, or else of version v1, with
//     defaults; also if the configuration has no arguments for the plugin;
//   - a *runtime.Unknown with JSON if no scheme has such a type, see DecodeInto;
//   - nil if there are no arguments.
//
// A plugin that is an io.Closer is closed when the scheduler stops. What the Handle shows of the cluster is empty until the first pod's turn; informers that
// the factory asks for are started and hold their first lists before it.
type PluginFactory = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error)

// DecodeInto decodes arguments of no registered type into a value. Without arguments the value stays as it is.
func DecodeInto(arguments runtime.Object, into any) error {
	if arguments == nil {
		return nil
	}
	unknown, ok := arguments.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("want args of type runtime.Unknown, got %T", arguments)
	}
	if unknown == nil || unknown.Raw == nil {
		return nil
	}
	switch unknown.ContentType {
	case runtime.ContentTypeJSON, "":
		return json.Unmarshal(unknown.Raw, into)
	case runtime.ContentTypeYAML:
		return yaml.Unmarshal(unknown.Raw, into)
	}
	return fmt.Errorf("not supported content type %s", unknown.ContentType)
}

// DefaultNormalizeScore scales scores, none of which may be negative, so that the highest becomes highest; with reverse, so that it becomes 0 and a score
// of 0 becomes highest. It always returns nil.
func DefaultNormalizeScore(highest int64, reverse bool, scores fwk.NodeScoreList) *fwk.Status {
	var most int64
	for i := range scores {
		most = max(most, scores[i].Score)
	}
	if most == 0 && !reverse {
		return nil
	}
	for i := range scores {
		scaled := int64(0)
		if most > 0 {
			scaled = highest * scores[i].Score / most
		}
		if reverse {
			scaled = highest - scaled
		}
		scores[i].Score = scaled
	}
	return nil
}

// DefaultParallelism is how many goroutines a Parallelizer uses where the configuration does not say.
const DefaultParallelism = 16

var _ fwk.Parallelizer = Parallelizer{}

// Parallelizer does pieces of work on several goroutines.
type Parallelizer struct{ goroutines int }

// NewParallelizer returns a Parallelizer with so many goroutines at most, and one at least.
func NewParallelizer(goroutines int) Parallelizer { return Parallelizer{max(1, goroutines)} }

// Until calls work with each of 0..pieces-1 and returns when all are done. When the context ends, it leaves out what has not been begun. The name of the
// operation is not used.
func (p Parallelizer) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	goroutines := max(1, p.goroutines)
	// The root of the number of pieces balances the cost of a handover against goroutines that wait for the last one; but all of them shall have work.
	chunk := max(1, min(int(math.Sqrt(float64(pieces))), pieces/goroutines+1))
	workqueue.ParallelizeUntil(ctx, goroutines, pieces, work, workqueue.WithChunkSize(chunk))
}
