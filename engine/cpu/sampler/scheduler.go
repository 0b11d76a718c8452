package sampler

import (
	"errors"
	"slices"
	"time"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// scheduler is what only the goroutine that holds the gate touches.
type scheduler struct {
	model     *model
	arena     *kernel.Arena
	steps     int64
	pages     pages
	prompts   []*prompt   // in order of arrival
	running   []*sequence // those of one prompt side by side
	preempted []*sequence // in order of arrival
	spare     []*sequence // finished, kept for their buffers

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
	s.pages = newPages(pagesFor(opts.MaxTokens))
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
	s.stats.Running = len(s.running) + len(s.preempted)
	s.stats.Cached = (s.pages.opened - s.pages.nFree) * pageTokens
}

// keepHidden stores the last hidden states of prompts that are complete now, for those who come later, and lines up the
// first tokens of all sequences whose prompt is complete: sequences of one prompt share a row of logits.
func (s *Sampler) keepHidden() {
	rows := len(s.batch.heads)
	for i, p := range s.fresh {
		p.headRow, p.headStep = rows-len(s.fresh)+i, s.steps
		p.hidden = slices.Clone(s.model.act.hidden.Row(p.headRow))
		s.retain(p)
	}
	for _, q := range s.running {
		if len(q.tokens) > 0 || !q.prompt.complete() {
			continue
		}
		if q.prompt.headStep != s.steps {
			q.prompt.headRow, q.prompt.headStep = rows, s.steps
			copy(s.model.act.hidden.Row(rows), q.prompt.hidden)
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
			d.sequence.add(d.token, d.logprob, d.sequence.request.adapter.version)
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
		}
		if r.failed() {
			continue // its caller may be gone
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

// retire takes sequences out of the batch and gives up their pages.
func (s *Sampler) retire(gone func(*sequence) bool) {
	leaves := func(q *sequence) bool {
		if !gone(q) {
			return false
		}
		if q.reason != "" {
			s.keepEnd(q)
		}
		s.vacate(q)
		s.spare = append(s.spare, q)
		return true
	}
	s.running = slices.DeleteFunc(s.running, leaves)
	s.preempted = slices.DeleteFunc(s.preempted, leaves)
}

// keepEnd makes the last page of a finished completion findable: the next turn's prompt goes on behind it. The newest
// token was not computed.
func (s *scheduler) keepEnd(q *sequence) {
	position := q.position()
	if n := position % pageTokens; n >= minCopied && q.prompt == nil && !q.chain.outdated {
		tokens := q.tokensOf(position / pageTokens)
		s.pages.file(q.chain.pages[position/pageTokens], q.chain.parent, tokens[:n], s.steps)
	}
}

// abandon fails everything that is queued or running.
func (s *Sampler) abandon(err error) {
	s.mu.Lock()
	s.queue.keep(func(r *request) bool {
		r.fail(err)
		return false
	})
	s.mu.Unlock()
	s.retire(func(q *sequence) bool {
		q.request.fail(err)
		return true
	})
}

// letGo drops cancelled requests.
func (s *Sampler) letGo() {
	if !s.cancelling.Swap(false) {
		return
	}
	cancelled := func(r *request) bool {
		if r.cancelled.Load() {
			r.fail(errCancelled)
			return true
		}
		return false
	}
	s.retire(func(q *sequence) bool { return cancelled(q.request) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.keep(func(r *request) bool { return !cancelled(r) })
}
