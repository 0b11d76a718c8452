// Package learn is what the trainer of a stage trains and keeps: policy, critic and teachers, and their checkpoints.
package learn

import (
	"context"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/trainer"
)

// Learner is what the trainer of a stage trains and keeps. It implements trainer.Checkpointer.
type Learner struct {
	Stage       *settle.Stage
	Models      *settle.Models
	Source      trinity.Source // of batches
	Checkpoints checkpoint.Dir
	Made        checkpoint.Provenance
	Log         *record.Log
}

// Save implements trainer.Checkpointer. If the step has a checkpoint already, Save adds the model
// to it.
func (c *Learner) Save(ctx context.Context, at trainer.Progress, last bool) error {
	dir := c.Checkpoints.Of(at.Step)
	model := filepath.Join(dir, c.Stage.ModelDir())
	withModel := c.Stage.Trainer.SaveHfCheckpoint == "always" || last && c.Stage.Trainer.SaveHfCheckpoint == "last"
	var err error
	if durable.Missing(dir) != "" {
		err = c.saveState(ctx, at, withModel)
	} else if withModel && !record.Present(model) {
		err = c.addModels(ctx, dir)
	}
	if err != nil {
		return err
	}
	c.Log.Checkpoint(at.Step, dir, model)
	return nil
}

// saveState writes a checkpoint from which a run resumes.
func (c *Learner) saveState(ctx context.Context, at trainer.Progress, withModel bool) error {
	src, err := c.Source.State()
	if err != nil {
		return err
	}
	coefficients, err := c.Stage.Objective.State()
	if err != nil {
		return err
	}
	state := checkpoint.State{
		Step: at.Step, Published: at.Published, Cursor: src.Cursor, Algorithm: coefficients, Made: c.Made, Pending: src.Pending,
	}
	if at.OptimizerSteps >= 0 {
		state.OptimizerSteps = &at.OptimizerSteps
	}
	return c.Checkpoints.Save(state, func(dir string) error {
		engine := filepath.Join(dir, checkpoint.EngineDir)
		if err := os.MkdirAll(engine, 0o755); err != nil {
			return err
		}
		if err := c.Models.Policy.SaveState(ctx, engine); err != nil {
			return err
		}
		if err := c.saveCritic(ctx, dir, withModel); err != nil || !withModel {
			return err
		}
		return c.writeModel(ctx, filepath.Join(dir, c.Stage.ModelDir()))
	})
}

// addModels adds to a checkpoint the files that transformers loads. The policy comes last: if its
// files are there, so are the critic's.
func (c *Learner) addModels(ctx context.Context, dir string) error {
	if err := c.addCritic(ctx, dir); err != nil {
		return err
	}
	return durable.WriteDir(filepath.Join(dir, c.Stage.ModelDir()), func(temp string) error { return c.writeModel(ctx, temp) })
}

// writeModel writes to dir the files that transformers or PEFT loads, including the tokenizer's.
func (c *Learner) writeModel(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := c.Models.Policy.SaveModel(ctx, dir); err != nil {
		return err
	}
	if err := c.Stage.Text.Tokenizer().WriteFiles(dir); err != nil {
		return err
	}
	return durable.Seal(dir)
}
