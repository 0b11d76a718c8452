package run

import (
	"context"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/weights"
)

// checkpointer implements trainer.Checkpointer for a stage.
type checkpointer struct {
	*stage
	source trinity.Source
}

// Save implements trainer.Checkpointer. If the step has a checkpoint already, Save adds the model
// to it.
func (c checkpointer) Save(ctx context.Context, at trainer.Progress, last bool) error {
	dir := c.checkpoints.Of(at.Step)
	model := filepath.Join(dir, c.ModelDir())
	withModel := c.Trainer.SaveHfCheckpoint == "always" || last && c.Trainer.SaveHfCheckpoint == "last"
	var err error
	if durable.Missing(dir) != "" {
		err = c.saveState(ctx, at, withModel)
	} else if withModel && !record.Present(model) {
		err = c.addModels(ctx, dir)
	}
	if err != nil {
		return err
	}
	c.log.Checkpoint(at.Step, dir, model)
	return nil
}

// saveState writes a checkpoint from which a run resumes.
func (c checkpointer) saveState(ctx context.Context, at trainer.Progress, withModel bool) error {
	src, err := c.source.State()
	if err != nil {
		return err
	}
	coefficients, err := c.Objective.State()
	if err != nil {
		return err
	}
	state := checkpoint.State{
		Step: at.Step, Published: at.Published, Cursor: src.Cursor, Algorithm: coefficients, Made: c.madeWith, Pending: src.Pending,
	}
	if at.OptimizerSteps >= 0 {
		state.OptimizerSteps = &at.OptimizerSteps
	}
	return c.checkpoints.Save(state, func(dir string) error {
		engine := filepath.Join(dir, checkpoint.EngineDir)
		if err := os.MkdirAll(engine, 0o755); err != nil {
			return err
		}
		if err := c.models.Policy.SaveState(ctx, engine); err != nil {
			return err
		}
		if err := c.saveCritic(ctx, dir, withModel); err != nil || !withModel {
			return err
		}
		return c.writeModel(ctx, filepath.Join(dir, c.ModelDir()))
	})
}

// addModels adds to a checkpoint the files that transformers loads. The policy comes last: if its
// files are there, so are the critic's.
func (c checkpointer) addModels(ctx context.Context, dir string) error {
	if err := c.addCritic(ctx, dir); err != nil {
		return err
	}
	return durable.WriteDir(filepath.Join(dir, c.ModelDir()), func(temp string) error { return c.writeModel(ctx, temp) })
}

// trimming is a Checkpointer that, after each checkpoint, removes from the queue's log what the
// checkpoint before it did not need. If the newest checkpoint is lost, the run can still resume
// from the one before.
type trimming struct {
	trainer.Checkpointer
	queue trinity.Buffer

	before trinity.SourceState // of the last checkpoint
	saved  int64               // its step
}

// Save implements trainer.Checkpointer.
func (t *trimming) Save(ctx context.Context, at trainer.Progress, last bool) error {
	if at.Step == t.saved { // the source has ended, and t.before belongs to this very checkpoint
		return t.Checkpointer.Save(ctx, at, last)
	}
	state, err := t.queue.State()
	if err != nil {
		return err
	}
	if err := t.Checkpointer.Save(ctx, at, last); err != nil {
		return err
	}
	if t.before.Cursor != nil {
		if err := t.queue.Trim(ctx, t.before); err != nil {
			return err
		}
	}
	t.before, t.saved = state, at.Step
	return nil
}

// announcing is a Checkpointer that tells the shelf which version each checkpoint needs.
type announcing struct {
	trainer.Checkpointer
	shelf *weights.Shelf
}

// Save implements trainer.Checkpointer.
func (a announcing) Save(ctx context.Context, at trainer.Progress, last bool) error {
	defer a.shelf.Saved(at.Published, at.IsCurrent())
	return a.Checkpointer.Save(ctx, at, last)
}

// writeModel writes to dir the files that transformers or PEFT loads, including the tokenizer's.
func (s *stage) writeModel(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.models.Policy.SaveModel(ctx, dir); err != nil {
		return err
	}
	if err := s.Text.Tokenizer().WriteFiles(dir); err != nil {
		return err
	}
	return durable.Seal(dir)
}
