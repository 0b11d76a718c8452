package kernel

import "sync/atomic"

// A span's word holds its round, its first unit and the unit behind its last one.
const (
	unitBits  = 20
	mostUnits = 1<<unitBits - 1
	rounds    = 1 << (64 - 2*unitBits)
)

// span is the units of tasks [from, to) of one round that one worker has left, or that all workers
// share.
type span struct {
	word atomic.Uint64
	_    [56]byte // a cache line for each worker
}

func (s *span) set(round uint64, from, to int) {
	s.word.Store(round<<(2*unitBits) | uint64(from)<<unitBits | uint64(to))
}

// takeFirst removes at most so many units from the beginning of the span. It returns none if nothing
// is left, or if the span belongs to another round.
func (s *span) takeFirst(round uint64, most int) (from, to int) {
	for {
		word := s.word.Load()
		from, to, ok := unpack(round, word)
		if !ok {
			return 0, 0
		}
		n := min(most, to-from)
		if s.word.CompareAndSwap(word, word+uint64(n)<<unitBits) {
			return from, from + n
		}
	}
}

// takeHalf removes the second half of the units.
func (s *span) takeHalf(round uint64) (from, to int) {
	for {
		word := s.word.Load()
		from, to, ok := unpack(round, word)
		if !ok {
			return 0, 0
		}
		middle := from + (to-from)/2
		if s.word.CompareAndSwap(word, word-uint64(to-middle)) {
			return middle, to
		}
	}
}

// unpack returns the units of a word. ok is false if the word has none of this round.
func unpack(round, word uint64) (from, to int, ok bool) {
	from, to = int(word>>unitBits&mostUnits), int(word&mostUnits)
	return from, to, word>>(2*unitBits) == round && from < to
}

// run runs tasks of the round until none is left. A worker takes the first units of its own span,
// and then halves of other workers' spans.
func (t ticket) run(worker int) {
	own, most := worker%t.spans, t.most
	for {
		from, to := t.job.spans[own].takeFirst(t.round, most)
		for other := 1; from == to && other < t.spans; other++ {
			from, to = t.job.spans[(own+other)%t.spans].takeHalf(t.round)
		}
		if from == to {
			return
		}
		if to > from+most { // others may take over what this worker has taken over
			t.job.spans[own].set(t.round, from+most, to)
			to = from + most
		}
		t.job.runUnits(from, to)
	}
}

// runUnits runs the tasks of some units.
func (j *job) runUnits(from, to int) {
	first, last := from*j.grain, min(j.tasks, to*j.grain)
	for ; first < last; first += j.most { // a unit may have more tasks than some takes at a time
		if to := min(last, first+j.most); j.some != nil {
			j.some(first, to)
		} else {
			j.each(first)
		}
	}
	if j.pending.Add(int64(from-to)) == 0 {
		j.finished <- struct{}{}
	}
}
