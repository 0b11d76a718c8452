package simulation

import (
	"errors"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/synchronizer"
)

// exploring is the explorer: it waits for weights, rolls out, and delivers.
type exploring struct {
	*simulated
	step     int64
	rolling  bool
	left     float64 // seconds of work until the rollouts of the step have ended
	versions []int64 // that each of them samples with first
	busy     float64 // seconds
	ended    float64 // when the last step was delivered, seconds
	done     bool
}

// advance does what needs no time, and tells whether there was any.
func (e *exploring) advance() (bool, error) {
	switch {
	case e.done || e.left > 0:
		return false, nil
	case !e.rolling:
		return unlessEarly(e.begin())
	}
	return unlessEarly(e.deliver())
}

// begin takes the version that the step begins with. While one is published nobody gets any.
func (e *exploring) begin() error {
	if e.trainer.publishing && e.trainer.left > 0 {
		return errNotYet
	}
	need := e.Pace.Required(e.step)
	if err := e.queue.sink.Pause(e.now, need); err != nil {
		return err
	}
	version, err := e.sync.Wait(e.now, need, e.Pace.Newest(e.step))
	if err != nil {
		return err
	}
	st := e.steps[e.step-1]
	e.rolling, e.left = true, st.span*e.perUnit.explore
	e.versions = make([]int64, len(st.tokens))
	for i := range e.versions {
		e.versions[i] = version
	}
	e.report.Versions = append(e.report.Versions, version)
	return nil
}

// replace has the rollouts of the step that have not begun sample with a version.
func (e *exploring) replace(version int64) {
	if !e.rolling {
		return
	}
	st := e.steps[e.step-1]
	passed := st.span - e.left/e.perUnit.explore
	for i, at := range st.starts {
		if at > passed {
			e.versions[i] = version
		}
	}
}

// deliver puts the rollouts of the step, when there is room.
func (e *exploring) deliver() error {
	group := make(trinity.Group, len(e.versions))
	for i, v := range e.versions {
		group[i] = &trinity.Experience{ID: trinity.ExperienceID{Step: e.step, Run: i}, Versions: [2]int64{v, v}}
	}
	if err := e.queue.Put(e.now, trinity.Delivery{Groups: []trinity.Group{group}, Needs: e.Pace.Required(e.step)}); err != nil {
		return err
	}
	e.rolling, e.ended = false, e.seconds
	if e.step++; e.step > e.Steps {
		e.done = true
		e.sync.ExplorerDone()
		return e.queue.sink.Close()
	}
	return nil
}

// training is the trainer: it takes a batch, trains, and publishes.
type training struct {
	*simulated
	step       int64
	published  int64
	atWork     bool
	publishing bool
	left       float64 // seconds of work
	busy       float64 // seconds of training
	syncing    float64 // seconds of publishing
	done       bool
}

// advance does what needs no time, and tells whether there was any.
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

// take begins a step with the batch that there is.
func (t *training) take() error {
	batch, err := t.source.Take(t.now, t.Batch, t.published)
	if errors.Is(err, io.EOF) {
		t.done = true
		return nil
	}
	if err != nil {
		return err
	}
	t.step++
	tokens := 0.0
	for _, e := range batch {
		tokens += t.steps[e.ID.Step-1].tokens[e.ID.Run] + t.rates.Prompt
	}
	t.record(batch)
	t.atWork, t.left = true, tokens*t.perUnit.train
	return nil
}

// end ends a step, and publishes its weights if it is time.
func (t *training) end() error {
	if t.step%t.PublishInterval == 0 {
		if err := t.sync.Publish(t.now, t.step); err != nil {
			return err
		}
		t.published, t.publishing, t.left = t.step, true, t.rates.Sync
		if t.Handover == synchronizer.AtOnce {
			t.explorer.replace(t.step)
		}
	}
	t.atWork = false
	return nil
}

// unlessEarly tells that something was done, unless it is to be tried again later.
func unlessEarly(err error) (bool, error) {
	if errors.Is(err, errNotYet) {
		return false, nil
	}
	return err == nil, err
}
