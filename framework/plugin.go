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

// PluginFactory builds a plugin for one profile. It is called once for each profile that
// enables the plugin, before the scheduler joins an election. It may block until ctx
// ends, which is when the scheduler stops. args are:
//
//   - an object with defaults, if a scheme has the type <Name>Args of group
//     kubescheduler.config.k8s.io. Its version is the internal one if the scheme has
//     that, and else v1. A plugin without arguments in the configuration gets the
//     defaults;
//   - a *runtime.Unknown with JSON if no scheme has such a type, see DecodeInto;
//   - nil if the configuration has no arguments.
//
// A plugin that is an io.Closer is closed when the scheduler stops. The Handle's view of
// the cluster is empty until the first pod's attempt. Informers that the factory requests
// are started before that, and hold their first lists.
type PluginFactory = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error)

// DecodeInto decodes arguments of no registered type into a value. Without arguments the
// value is unchanged.
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

// DefaultNormalizeScore scales scores, which must not be negative, so that the maximum
// becomes highest. With reverse, the maximum becomes 0 and a score of 0 becomes highest.
// It always returns nil.
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

// DefaultParallelism is the default number of goroutines of a Parallelizer.
const DefaultParallelism = 16

var _ fwk.Parallelizer = Parallelizer{}

// Parallelizer splits work among several goroutines.
type Parallelizer struct{ goroutines int }

// NewParallelizer returns a Parallelizer with at most this many goroutines, and at least
// one.
func NewParallelizer(goroutines int) Parallelizer { return Parallelizer{max(1, goroutines)} }

// Until calls work with each of 0..pieces-1 and returns when all calls are done. After
// the end of the context no new call begins. The name of the operation is ignored.
func (p Parallelizer) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	goroutines := max(1, p.goroutines)
	// The square root of the number of pieces balances two costs: handing over chunks,
	// and goroutines that wait for the last chunk. Smaller chunks give every goroutine
	// work.
	chunk := max(1, min(int(math.Sqrt(float64(pieces))), pieces/goroutines+1))
	workqueue.ParallelizeUntil(ctx, goroutines, pieces, work, workqueue.WithChunkSize(chunk))
}
