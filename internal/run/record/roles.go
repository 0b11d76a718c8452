package record

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/trainer"
)

// Explorer returns the explorer's side of the log.
func (l *Log) Explorer() explorer.Recorder { return explorerSide{l} }

// Trainer returns the trainer's side of the log.
func (l *Log) Trainer() trainer.Recorder { return trainerSide{l} }

// explorerSide implements explorer.Recorder.
type explorerSide struct{ log *Log }

// Log implements explorer.Recorder.
func (e explorerSide) Log(ctx context.Context, rec trinity.Record) error {
	rec.Role = trinity.RoleExplorer
	return e.log.Record(ctx, rec)
}

// Warn implements explorer.Recorder: it adds a line to the log of failed rollouts.
func (e explorerSide) Warn(err error) {
	fmt.Fprintf(e.log.failures, "%s %v\n", time.Now().Format(time.RFC3339), err)
}

// Say implements explorer.Recorder.
func (e explorerSide) Say(line string) { e.log.Say(line) }

// trainerSide implements trainer.Recorder.
type trainerSide struct{ log *Log }

// Log implements trainer.Recorder.
func (t trainerSide) Log(ctx context.Context, step int64, m trinity.Metrics) error {
	return t.log.Record(ctx, trinity.Record{Step: step, Role: trinity.RoleTrainer, Metrics: m})
}

// Took implements trainer.Recorder.
func (t trainerSide) Took(step int64, trained []trinity.ExperienceID, dropped map[string][]trinity.ExperienceID) error {
	s := ledger.Step{Step: step, Trained: trained, Dropped: map[string]ledger.IDs{}}
	for who, ids := range dropped {
		if len(ids) > 0 {
			s.Dropped[who] = ids
		}
	}
	if b := t.log.cfg.Buffer.TrainerInput.ExperienceBuffer; b != nil {
		s.Replay = b.ReplayBuffer.Enable
	}
	return t.log.Account(trinity.RoleTrainer, s)
}

// Progress implements trainer.Recorder.
func (t trainerSide) Progress(doing string, done, total int) {
	t.log.Progress(trinity.RoleTrainer, doing, done, total)
}

// Say implements trainer.Recorder.
func (t trainerSide) Say(line string) { t.log.Say(line) }
