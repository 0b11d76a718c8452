package launcher

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// jobState is the state of a job of a scheduler.
type jobState struct {
	words         string // the scheduler's
	ended, failed bool   // a job that the scheduler has forgotten counts as both
}

// watch asks a scheduler for the state of a job, again and again.
type watch struct {
	job   string        // in words, for errors
	every time.Duration // between two questions
	ask   func(context.Context) (jobState, error)
}

// silence is how long a scheduler may give no answer: several of its programs or requests, each of
// which may fail only after a minute or more. The driver hears from the members meanwhile.
const silence = 5 * time.Minute

// end waits until the job has ended, and returns its last state. After each answer it calls each,
// unless that is nil. A temporary error of each counts as no answer.
func (w *watch) end(ctx context.Context, each func() error) (jobState, error) {
	heard := time.Now()
	for {
		state, err := w.ask(ctx)
		if each != nil && err == nil {
			if err = each(); err != nil && !retry.IsTemporary(err) {
				return state, err
			}
		}
		switch {
		case err == nil && state.ended:
			return state, nil
		case err == nil:
			heard = time.Now()
		case ctx.Err() == nil && time.Since(heard) > silence:
			return state, fmt.Errorf("asking for %s: %w", w.job, err)
		}
		select {
		case <-ctx.Done():
			return state, fmt.Errorf("waiting for the end of %s: %w", w.job, context.Cause(ctx))
		case <-time.After(w.every):
		}
	}
}

// success waits until the job has ended. It returns an error if the job has failed.
func (w *watch) success(ctx context.Context) error {
	state, err := w.end(ctx, nil)
	if err == nil && state.failed {
		err = fmt.Errorf("%s: %s", w.job, state.words)
	}
	return err
}

// follow calls more after each answer of the scheduler, until the job or ctx has ended.
func (w *watch) follow(ctx context.Context, more func() error) error {
	_, err := w.end(ctx, more)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
