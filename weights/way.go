package weights

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Ways are the plug-ins that bring weights from a trainer to a sampler of the same process. A sync_method of Trinity-RFT, such as
// nccl, stands for the first that fits the engines. Explorers of other processes get weights over HTTP; see package fleet.
var Ways = registry.New[Way]("weights", "how versions of the weights get from trainer to sampler (synchronizer.sync_method)")

func init() {
	Ways.Auto = []string{"memory", "directory"}
	Ways.Register("memory", "The engine hands its weights to a sampler that shares its memory. Trainer and sampler must be one engine.",
		func() Way { return memory{} })
	Ways.Register("directory", "The engine writes each version as a model directory, and the sampler loads it. Trainer and sampler may be any two engines.",
		func() Way { return directory{} })
}

// Way is the plug-in of a way from trainer to sampler.
type Way interface {
	// Shares reports whether the sampler is opened beside the engine, to share its memory (trinity.SamplerSpec.Shared).
	Shares() bool
	// Open connects an open engine with an open sampler, and brings version l.Version into use.
	Open(ctx context.Context, l Link) (trinity.Synchronizer, error)
}

// Link is an engine and a sampler of one process, and how they keep step.
type Link struct {
	Engine   trinity.Engine
	Sampler  trinity.Sampler
	Version  int64 // that the run goes on with; 0 is the model as it was opened
	Current  bool  // the engine's weights are that version; otherwise a trinity.Publisher keeps it
	Handover Handover
	Timeout  time.Duration // of each wait: synchronizer.sync_timeout
	Dir      string        // of the run's buffers, for files
}

type memory struct{}

// Shares implements Way.
func (memory) Shares() bool { return true }

// Open implements Way. The engine and its sampler have the version already: they were resumed together.
func (memory) Open(_ context.Context, l Link) (trinity.Synchronizer, error) {
	engine, ok := l.Engine.(trinity.Publisher)
	if !ok {
		return nil, fmt.Errorf("a %T cannot hand weights to its own sampler: choose another synchronizer.sync_method", l.Engine)
	}
	return NewMemory(engine, l.Version, l.Handover, l.Timeout), nil
}
