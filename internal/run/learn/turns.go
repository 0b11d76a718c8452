package learn

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/weights"
)

// In mode colocate a trainer and the servers that sample may share GPUs. They take turns: the servers sleep
// when they have been started, while a batch is trained on and while a checkpoint is written, and the
// delivery of a version wakes them.

// TakeTurns makes a trainer use the GPUs that it shares with a sampler only while that sleeps.
func TakeTurns(o *trainer.Options, sampler trinity.Sampler) {
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

// Trimming is a Checkpointer that, after each checkpoint, removes from the queue's log what the
// checkpoint before it did not need. If the newest checkpoint is lost, the run can still resume
// from the one before.
type Trimming struct {
	trainer.Checkpointer
	Queue trinity.Buffer

	before trinity.SourceState // of the last checkpoint
	saved  int64               // its step
}

// Save implements trainer.Checkpointer.
func (t *Trimming) Save(ctx context.Context, at trainer.Progress, last bool) error {
	if at.Step == t.saved { // the source has ended, and t.before belongs to this very checkpoint
		return t.Checkpointer.Save(ctx, at, last)
	}
	state, err := t.Queue.State()
	if err != nil {
		return err
	}
	if err := t.Checkpointer.Save(ctx, at, last); err != nil {
		return err
	}
	if t.before.Cursor != nil {
		if err := t.Queue.Trim(ctx, t.before); err != nil {
			return err
		}
	}
	t.before, t.saved = state, at.Step
	return nil
}

// Announcing is a Checkpointer that tells the shelf which version each checkpoint needs.
type Announcing struct {
	trainer.Checkpointer
	Shelf *weights.Shelf
}

// Save implements trainer.Checkpointer.
func (a Announcing) Save(ctx context.Context, at trainer.Progress, last bool) error {
	defer a.Shelf.Saved(at.Published, at.IsCurrent())
	return a.Checkpointer.Save(ctx, at, last)
}

// Unsampled is the weights of a trainer whose versions nobody samples with.
type Unsampled struct{ Policy engine.Trainer }

// Publish implements trainer.Weights.
func (u Unsampled) Publish(ctx context.Context, version int64) error {
	p, ok := u.Policy.(engine.Publisher)
	if !ok {
		return nil
	}
	if err := p.Offer(ctx, version); err != nil {
		return err
	}
	_, err := p.Adopt(ctx)
	return err
}

// Before returns a Checkpointer that saves one step, unless the trainer began with it: from that
// checkpoint the overrides are tried.
func (c *Learner) Before(step, from int64) trainer.Checkpointer { return &before{c, step, from} }

// before is what [Learner.Before] returns.
type before struct {
	learner    *Learner
	step, from int64
}

// Save implements trainer.Checkpointer.
func (b *before) Save(ctx context.Context, at trainer.Progress, _ bool) error {
	if at.Step != b.step || at.Step == b.from {
		return nil
	}
	return b.learner.saveState(ctx, at, false, false)
}
