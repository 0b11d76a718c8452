package sampler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// scheduler decides what each step computes, and runs the steps. Only the goroutine that holds the
// sampler's gate may touch it.
type scheduler struct {
	opts      Options
	inbox     *inbox
	model     *network
	steps     int64
	pages     pages
	prompts   []*prompt   // in order of arrival
	running   []*sequence // sequences of one prompt are neighbours
	preempted []*sequence // in order of arrival
	spare     []*sequence // finished, kept for their buffers
	holds     map[holder]*hold

	grouped   []*sequence // of running, those that decode, by adapter
	batch     batch
	fresh     []*prompt // prompts that this step completes, in the order of their rows in batch.heads
	draws     []draw
	firsts    []int // the first draw of each sequence
	scored    []scored
	answered  []*request    // requests that this step completes
	logits    kernel.Matrix // of the hidden states from firstRow on
	firstRow  int
	drawers   []*drawer
	drafter   *drafter // nil without drafts
	drawTask  func(task int)
	scoreTask func(task int)
}

// draw is one token that a step draws, or would draw if all drafts before it were accepted.
type draw struct {
	sequence *sequence
	row      int  // of the step's hidden states
	drawn    bool // else a draft before it was not accepted, or the completion has ended
	token    int32
	logprob  float32
	top      []trinity.TokenLogprob // as many as the request wants
}

func newScheduler(m *network, inbox *inbox, opts Options) *scheduler {
	s := &scheduler{opts: opts, inbox: inbox, model: m, pages: newPages(pagesFor(opts.MaxTokens)), holds: map[holder]*hold{},
		drafter: newDrafter(opts)}
	for range opts.Pool.Size() {
		s.drawers = append(s.drawers, newDrawer(m.cfg.VocabSize))
	}
	s.drawTask = func(task int) {
		for i := task; i < len(s.firsts); i += len(s.drawers) {
			s.drawFrom(s.drawers[task], s.firsts[i])
		}
	}
	s.scoreTask = func(task int) {
		for i := task; i < len(s.scored); i += len(s.drawers) {
			if row := s.logitsOf(s.scored[i].row); row != nil {
				s.scored[i].write(s.drawers[task], row)
			}
		}
	}
	return s
}

// step lets sequences leave and join, computes one token of each and a chunk of prompts, and
// returns finished completions to their callers.
func (s *scheduler) step() {
	s.model.mark("begin")
	start := time.Now()
	s.steps++
	s.dropCancelled()
	s.releaseEnded()
	s.admit()
	prefilled := s.plan()
	s.model.forward(&s.batch)
	s.keepHidden()
	sampled := s.drawTokens()
	drafts := s.drafter.measure(len(s.grouped), &s.batch, s.draws, time.Since(start))
	s.inbox.record(func(stats *Stats) {
		stats.Steps++
		stats.Prefilled += int64(prefilled)
		stats.Sampled += int64(sampled)
		stats.Drafted += int64(drafts.verified)
		stats.Accepted += int64(drafts.accepted)
		stats.Saved += drafts.saved
		stats.Busy += time.Since(start)
	})
	s.deliver()
	s.inbox.record(func(stats *Stats) {
		stats.Running = len(s.running) + len(s.preempted)
		stats.Cached = (s.pages.opened - s.pages.nFree) * pageTokens
	})
	s.model.mark("rest")
	s.model.mark("end")
	for _, r := range s.answered { // last, so that a caller with its answer sees it counted in Stats
		close(r.done)
	}
	clear(s.answered)
	s.answered = s.answered[:0]
}

// keepHidden stores the last hidden states of prompts that this step completed, for later
// sequences. It also adds the first draws of all sequences whose prompt is complete; sequences of
// one prompt share a row of logits. Each hidden state whose logits the step needs then has its adapter in the batch.
func (s *scheduler) keepHidden() {
	b := &s.batch
	for _, row := range b.heads {
		b.headAdapters = append(b.headAdapters, b.adapters[row])
	}
	for _, p := range s.fresh {
		p.headStep = s.steps
		p.hidden = slices.Clone(s.model.act.hidden.Row(p.headRow))
		s.retain(p)
	}
	for _, q := range s.running {
		if len(q.tokens) > 0 || !q.prompt.complete() {
			continue
		}
		if q.prompt.headStep != s.steps {
			q.prompt.headRow, q.prompt.headStep = len(b.headAdapters), s.steps
			copy(s.model.act.hidden.Row(q.prompt.headRow), q.prompt.hidden)
			b.headAdapters = append(b.headAdapters, q.prompt.adapter)
		}
		s.draws = append(s.draws, draw{sequence: q, row: q.prompt.headRow})
	}
}

// logitsOf returns the logits of one of the step's hidden states, nil if they are not those at hand.
func (s *scheduler) logitsOf(row int) []float32 {
	if row < s.firstRow || row >= s.firstRow+s.logits.Rows {
		return nil
	}
	return s.logits.Row(row - s.firstRow)
}

// drawTokens draws the step's tokens and adds them to their sequences. It returns their number. The
// logits of many rows, of prompts that are scored, are computed in parts. The first part has all rows of
// drafts.
func (s *scheduler) drawTokens() (drawn int) {
	s.firsts = s.firsts[:0]
	for i := range s.draws {
		if i == 0 || s.draws[i].sequence != s.draws[i-1].sequence {
			s.firsts = append(s.firsts, i)
		}
	}
	rows, most := len(s.batch.headAdapters), s.opts.decodedRows()
	for s.firstRow = 0; s.firstRow < rows; s.firstRow += most {
		s.logits = s.model.head(&s.batch, s.firstRow, min(s.firstRow+most, rows))
		s.opts.Pool.Run(min(len(s.drawers), len(s.firsts)), s.drawTask)
		s.opts.Pool.Run(min(len(s.drawers), len(s.scored)), s.scoreTask)
		s.model.mark("draw")
	}
	for _, first := range s.firsts {
		q, n := s.draws[first].sequence, drawnFrom(s.draws, first)
		if drawn += n; s.drafter == nil || s.draws[first+n-1].token < 0 {
			continue
		}
		s.drafter.learn(q, n)
		if q.verified > 0 {
			q.settle(&s.pages, n, s.steps)
		}
	}
	return drawn
}

var (
	errLogits  = errors.New("the model's logits are not numbers: the weights are broken, or every token is forbidden")
	errNoEnd   = fmt.Errorf("%w: the form is complete before the reply has min_tokens: lower min_tokens", trinity.ErrConstraint)
	errDeadEnd = fmt.Errorf("%w: no token of the model continues the text, or its form is too complex", trinity.ErrConstraint)
)

// failed returns why the last draw of a sequence gave no token that it can take.
func (d *draw) failed() error {
	switch q := d.sequence; {
	case d.token < 0 && q.query.constraint != nil && len(q.query.forbidden) > 0:
		return errNoEnd
	case d.token < 0 && q.query.constraint != nil:
		return errDeadEnd
	case d.token < 0:
		return errLogits
	case q.broken != nil:
		return fmt.Errorf("%w: %w", trinity.ErrConstraint, q.broken)
	}
	return nil
}

// deliver passes new tokens to OnToken and OnSampled, and finishes completions.
func (s *scheduler) deliver() {
	finished := false
	for i := range s.draws {
		d := &s.draws[i]
		q, r := d.sequence, d.sequence.request
		if !d.drawn {
			continue
		}
		last := !continues(s.draws, i)
		if err := d.failed(); last && err != nil {
			r.fail(err)
			finished = true
		}
		if r.failed() {
			continue // Sample may have returned
		}
		sampled := trinity.Sampled{Token: d.token, Logprob: d.logprob, Top: d.top}
		if r.params.OnToken != nil {
			r.params.OnToken(q.index, sampled)
		}
		r.params.Tell(q.index, sampled)
		if last && q.reason != "" {
			finished = true
			if q.complete(s.model.routes.of(q)) {
				s.answered = append(s.answered, r)
			}
		}
	}
	if finished {
		s.retire(func(q *sequence) bool { return q.reason != "" || q.request.failed() })
	}
}

// retire removes sequences from the batch and gives up their pages.
func (s *scheduler) retire(gone func(*sequence) bool) {
	leaves := func(q *sequence) bool {
		if !gone(q) {
			return false
		}
		if q.reason != "" {
			s.keepEnd(q)
			s.keepPages(q)
		}
		s.vacate(q)
		s.spare = append(s.spare, q)
		return true
	}
	s.running = slices.DeleteFunc(s.running, leaves)
	s.preempted = slices.DeleteFunc(s.preempted, leaves)
}

// keepEnd files the last page of a finished completion, so that the prompt of a conversation's next
// turn finds it. The page lacks the newest token, which no step has computed.
func (s *scheduler) keepEnd(q *sequence) {
	position := q.position()
	if n := position % pageTokens; n >= minCopied && q.prompt == nil && !q.chain.outdated {
		tokens := q.tokensOf(position / pageTokens)
		s.pages.file(&q.chain, q.chain.pages[position/pageTokens], tokens[:n], s.steps)
	}
}

// abandon fails everything that is queued or running.
func (s *scheduler) abandon(err error) {
	s.inbox.keep(func(r *request) bool {
		r.fail(err)
		return false
	})
	s.retire(func(q *sequence) bool {
		q.request.fail(err)
		return true
	})
}

// dropCancelled removes cancelled requests.
func (s *scheduler) dropCancelled() {
	if !s.inbox.cancelling.Swap(false) {
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
	s.inbox.keep(func(r *request) bool { return !cancelled(r) })
}
