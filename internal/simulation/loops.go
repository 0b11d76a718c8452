package simulation

import (
	"errors"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/weights"
)

// training is the trainer: it takes a batch, trains, and publishes.
type training struct {
	*simulated
	step       int64
	published  int64
	atWork     bool // a step has its batch
	publishing bool
	left       float64 // seconds of work until the step or the publication ends
	busy       float64 // seconds of training
	syncing    float64 // seconds of publishing
	done       bool
}

// advance does everything that needs no time. It reports whether it did anything.
func (t *training) advance() (bool, error) {
	switch {
	case t.done || t.left > 0:
		return false, nil
	case t.publishing:
		t.publishing = false
		return true, nil
	case t.atWork:
		return unlessEarly(t.end())
	}
	return unlessEarly(t.take())
}

// take begins a step if the source has a batch.
func (t *training) take() error {
	batch, err := t.source.Take(now, trinity.Want{N: t.Batch, Rollouts: true, Published: t.published})
	if errors.Is(err, io.EOF) {
		t.done = true
		return nil
	}
	if err != nil {
		return err
	}
	t.step++
	tokens := 0.0
	for _, e := range batch.Experiences() {
		tokens += t.steps[e.ID.Step-1].tokens[e.ID.Run] + t.rates.Prompt
	}
	t.record(batch.Experiences())
	t.atWork, t.left = true, tokens*t.perUnit.train
	return nil
}

// end ends a step and publishes its weights if a version is due.
func (t *training) end() error {
	if t.step%t.PublishInterval == 0 {
		if err := t.sync.Publish(now, t.step); err != nil {
			return err
		}
		t.published, t.publishing, t.left = t.step, true, t.rates.Sync
		if t.Handover == weights.AtOnce {
			t.explorer.replace(t.step)
		}
	}
	t.atWork = false
	return nil
}

// unlessEarly returns false if an action would have had to wait, and true if it succeeded.
func unlessEarly(err error) (bool, error) {
	if errors.Is(err, errNotYet) {
		return false, nil
	}
	return err == nil, err
}
