// Package weights holds how versions of the weights get from the trainer to the sampler.
//
// In one process a Way connects the two: in memory, or through a directory. A Way is a plug-in.
//
// Between processes the versions travel over HTTP: the trainer publishes on a Shelf, and each
// sampler has a Follower, which downloads and loads them. Package fleet connects the two.
package weights

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// Ways are the plug-ins that bring weights from a trainer to a sampler of the same process. A
// sync_method of Trinity-RFT, such as nccl, stands for the first Way that fits the engines.
var Ways = registry.New[Way]("weights", "how versions of the weights get from trainer to sampler (synchronizer.sync_method)")

func init() {
	Ways.Auto = []string{"memory", "directory"}
	Ways.Register("memory", "The engine hands its weights to a sampler that shares its memory. Trainer and sampler must be one engine.",
		func() Way { return memory{} })
	Ways.Register("directory",
		"The engine writes each version as a model directory, and the sampler loads it. Trainer and sampler may be any two engines.",
		func() Way { return directory{} })
}

// Way is the plug-in that connects a trainer and a sampler of one process.
type Way interface {
	// Shares reports whether the sampler shares the engine's memory. If it does, the run opens the
	// sampler beside the engine (engine.SamplerSpec.Shared).
	Shares() bool
	// Open connects an open engine with an open sampler and brings version l.Version into use.
	Open(ctx context.Context, l Link) (Synchronizer, error)
}

// Link is an engine and a sampler of one process, and how to synchronize them.
type Link struct {
	Engine   engine.Trainer
	Sampler  trinity.Sampler
	Version  int64 // with which the run resumes; 0 is the model as the run opened it
	Current  bool  // the engine's weights are that version; otherwise the engine, an engine.Publisher, keeps it
	Handover Handover
	Timeout  time.Duration // of each wait: synchronizer.sync_timeout
	Dir      string        // for files: the run's buffer.cache_dir

	// Probe proves each delivery to a Provable sampler. nil: nothing is proven.
	Probe *Probe
	// Report receives the metrics of a version that has come into use, and Say a line for people. nil
	// receives nothing.
	Report func(ctx context.Context, version int64, m trinity.Metrics) error
	Say    func(string)
}

type memory struct{}

// Shares implements Way.
func (memory) Shares() bool { return true }

// Open implements Way. The sampler has the version already, because it resumed with the engine.
func (memory) Open(_ context.Context, l Link) (Synchronizer, error) {
	trainer, ok := l.Engine.(engine.Publisher)
	if !ok {
		return nil, fmt.Errorf("a %T cannot hand weights to its own sampler: choose another synchronizer.sync_method", l.Engine)
	}
	return NewMemory(trainer, l.Version, l.Handover, l.Timeout), nil
}
