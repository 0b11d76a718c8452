package run

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/weights"
)

// In mode colocate a trainer and the servers that sample may share GPUs. They take turns: the servers sleep
// when they have been started, while a batch is trained on and while a checkpoint is written, and the
// delivery of a version wakes them.

// takeTurns makes a trainer use the GPUs that it shares with a sampler only while that sleeps.
func takeTurns(o *trainer.Options, sampler trinity.Sampler) {
	if sleeper, ok := sampler.(weights.Sleeper); ok {
		o.Source, o.Checkpointer = turnSource{o.Source, sleeper}, turnCheckpointer{o.Checkpointer, sleeper}
	}
}

// turnSource is a Source after whose batches the sampler sleeps. The version that follows wakes it.
type turnSource struct {
	trinity.Source
	sleeper weights.Sleeper
}

// Take implements trinity.Source.
func (t turnSource) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := t.Source.Take(ctx, want)
	if err == nil {
		err = t.sleeper.Sleep(context.WithoutCancel(ctx)) // it has deadlines, and the batch that was taken is trained on
	}
	return taken, err
}

// turnCheckpointer is a Checkpointer that writes while the sampler sleeps.
type turnCheckpointer struct {
	trainer.Checkpointer
	sleeper weights.Sleeper
}

// Save implements trainer.Checkpointer.
func (t turnCheckpointer) Save(ctx context.Context, at trainer.Progress, last bool) error {
	if err := t.sleeper.Sleep(ctx); err != nil {
		return err
	}
	if err := t.Checkpointer.Save(ctx, at, last); err != nil {
		return err
	}
	return t.sleeper.Wake(ctx)
}
