package sampler

import (
	"errors"
	"slices"
	"time"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// scheduler is what only the goroutine that holds the gate touches.
type scheduler struct {
	model   *model
	arena   *kernel.Arena
	version int64
	steps   int64
	prompts promptCache
	running []*sequence // those of one prompt side by side
	spare   []*sequence // finished, kept for their buffers

	batch    batch
	fresh    []*prompt // that the step completes, in the order of their rows in batch.heads
	draws    []draw
	answered []*request // that the step completes
	logits   kernel.Matrix
	drawers  []*drawer
	drawTask func(task int)
}

// draw is one token to be drawn in a step.
type draw struct {
	sequence *sequence
	row      int // of the logits
	token    int32
	logprob  float32
}

func (s *scheduler) init(m *model, arena *kernel.Arena, opts Options) {
	s.model, s.arena = m, arena
	s.prompts.rows = newExtents(opts.MaxTokens)
	for range opts.Pool.Size() {
		s.drawers = append(s.drawers, newDrawer(m.cfg.VocabSize))
	}
	s.drawTask = func(task int) {
		for i := task; i < len(s.draws); i += len(s.drawers) {
			d := &s.draws[i]
			d.token, d.logprob = s.drawers[task].draw(s.logits.Row(d.row), &d.sequence.query)
		}
	}
}

// step lets sequences leave and join, computes one token of each and a chunk of prompts, and hands out what is done.
func (s *Sampler) step() {
	start := time.Now()
	s.steps++
	s.letGo()
	s.admit()
	prefilled := s.plan()
	s.model.forward(&s.batch)
	s.keepHidden()
	sampled := s.drawTokens()
	s.mu.Lock()
	s.stats.Steps++
	s.stats.Prefilled += int64(prefilled)
	s.stats.Sampled += int64(sampled)
	s.stats.Busy += time.Since(start)
	s.mu.Unlock()
	s.deliver()
	s.report()
	for _, r := range s.answered { // last, so that Stats are not behind what callers know
		close(r.done)
	}
	clear(s.answered)
	s.answered = s.answered[:0]
}

// report tells the waiting side what is going on.
func (s *Sampler) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Running = len(s.running)
	s.stats.Cached = s.opts.MaxTokens - s.prompts.rows.available()
}

// plan lays out the step's rows: the newest token of every completion, then prompt tokens, as many prompts as fit whole, or a part of one.
// It returns the number of prompt tokens.
func (s *Sampler) plan() int {
	b := &s.batch
	b.reset()
	s.draws, s.fresh = s.draws[:0], s.fresh[:0]
	for _, q := range s.running {
		if n := len(q.tokens); n > 0 {
			prompt := extent{q.prompt.rows.start, len(q.prompt.tokens)}
			row := b.add(q.tokens[n-1], prompt.len+n-1, prompt, extent{q.own.start, n})
			s.draws = append(s.draws, draw{sequence: q, row: len(b.heads)})
			b.heads = append(b.heads, row)
		}
	}
	budget := s.opts.PrefillChunk
	for _, begun := range []bool{true, false} { // the rows that begin a prompt come last
		for _, p := range s.prompts.prompts {
			if !p.complete() && (p.done > 0) == begun && (budget == s.opts.PrefillChunk || len(p.tokens)-p.done <= budget) {
				budget -= s.planPrompt(p, budget)
			}
		}
	}
	return s.opts.PrefillChunk - budget
}

// planPrompt adds up to budget rows of a prompt.
func (s *Sampler) planPrompt(p *prompt, budget int) int {
	b, n := &s.batch, min(budget, len(p.tokens)-p.done)
	if p.done == 0 {
		b.starts = append(b.starts, kernel.Segment{Start: len(b.tokens), Len: n, Prefix: -1})
	}
	before := extent{p.rows.start, p.done} // which the rows read together
	for i := range n {
		b.add(p.tokens[p.done+i], p.done+i, before, extent{p.rows.start + p.done, i + 1})
	}
	if p.done += n; p.complete() {
		b.heads = append(b.heads, len(b.tokens)-1)
		s.fresh = append(s.fresh, p)
	}
	return n
}

// keepHidden stores the last hidden states of prompts that are complete now, for those who come later, and lines up the
// first tokens of all sequences whose prompt is complete: sequences of one prompt share a row of logits.
func (s *Sampler) keepHidden() {
	hidden := kernel.NewMatrix(s.model.act.hidden, s.opts.MaxSequences, s.cfg.HiddenSize)
	rows := len(s.batch.heads)
	for i, p := range s.fresh {
		p.headRow, p.headStep = rows-len(s.fresh)+i, s.steps
		copy(p.hidden, hidden.Row(p.headRow))
	}
	for _, q := range s.running {
		if len(q.tokens) > 0 || !q.prompt.complete() {
			continue
		}
		if q.prompt.headStep != s.steps {
			q.prompt.headRow, q.prompt.headStep = rows, s.steps
			copy(hidden.Row(rows), q.prompt.hidden)
			rows++
		}
		s.draws = append(s.draws, draw{sequence: q, row: q.prompt.headRow})
	}
	s.logits = kernel.Matrix{}
	if rows > 0 {
		s.logits = s.model.head(rows)
	}
}

// drawTokens draws the step's tokens and adds them to their sequences.
func (s *Sampler) drawTokens() int {
	for i := range s.draws {
		s.draws[i].sequence.prepare()
	}
	s.opts.Pool.Run(min(len(s.drawers), len(s.draws)), s.drawTask)
	for i := range s.draws {
		d := &s.draws[i]
		if d.token >= 0 {
			d.sequence.add(d.token, d.logprob, s.version)
		}
	}
	return len(s.draws)
}

var errLogits = errors.New("the model's logits are not numbers: the weights are broken, or every token is forbidden")

// deliver tells of new tokens and finishes completions.
func (s *Sampler) deliver() {
	finished := false
	for i := range s.draws {
		d := &s.draws[i]
		q, r := d.sequence, d.sequence.request
		if d.token < 0 {
			r.fail(errLogits)
			finished = true
			continue
		}
		if r.params.OnToken != nil {
			r.params.OnToken(q.index, d.token)
		}
		if q.reason = q.finish(d.token, s.opts.Decode); q.reason != "" {
			finished = true
			if q.complete() {
				s.answered = append(s.answered, r)
			}
		}
	}
	if finished {
		s.retire(func(q *sequence) bool { return q.reason != "" || q.request.failed() })
	}
}

// retire takes sequences out of the batch and frees their rows.
func (s *Sampler) retire(gone func(*sequence) bool) {
	s.running = slices.DeleteFunc(s.running, func(q *sequence) bool {
		if !gone(q) {
			return false
		}
		s.prompts.rows.give(q.own)
		s.prompts.leave(q.prompt, s.steps)
		s.spare = append(s.spare, q)
		return true
	})
}

// abandon fails everything that is queued or running.
func (s *Sampler) abandon(err error) {
	s.mu.Lock()
	queue := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, r := range queue {
		r.fail(err)
	}
	for _, q := range s.running {
		q.request.fail(err)
	}
	s.retire(func(*sequence) bool { return true })
	s.report()
}

// letGo drops cancelled requests.
func (s *Sampler) letGo() {
	if !s.cancelling.Swap(false) {
		return
	}
	cancelled := func(r *request) bool { return r.cancelled.Load() }
	s.retire(func(q *sequence) bool {
		if cancelled(q.request) {
			q.request.fail(errCancelled)
			return true
		}
		return false
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(r *request) bool {
		if cancelled(r) {
			r.fail(errCancelled)
			return true
		}
		return false
	})
}
