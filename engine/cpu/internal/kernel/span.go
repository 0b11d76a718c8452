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

// take removes the first unit of the span, or the second half of its units. It returns an empty
// range if nothing is left, or if the span belongs to another round.
func (s *span) take(round uint64, half bool) (from, to int) {
	for {
		word := s.word.Load()
		from, to := int(word>>unitBits&mostUnits), int(word&mostUnits)
		if word>>(2*unitBits) != round || from >= to {
			return 0, 0
		}
		if half {
			middle := from + (to-from)/2
			if s.word.CompareAndSwap(word, word-uint64(to-middle)) {
				return middle, to
			}
			continue
		}
		if s.word.CompareAndSwap(word, word+1<<unitBits) {
			return from, from + 1
		}
	}
}

// work runs tasks of the round until none is left. A worker takes the first units of its own span,
// and then halves of other workers' spans.
func (t ticket) work(worker int) {
	own := worker % t.spans
	for {
		from, to := t.job.spans[own].take(t.round, false)
		for other := 1; from == to && other < t.spans; other++ {
			from, to = t.job.spans[(own+other)%t.spans].take(t.round, true)
		}
		if from == to {
			return
		}
		if to > from+1 { // others may take over what this worker has taken over
			t.job.spans[own].set(t.round, from+1, to)
		}
		t.job.runUnit(from)
	}
}

// runUnit runs the tasks of a unit.
func (j *job) runUnit(unit int) {
	for task := unit * j.grain; task < min(j.tasks, (unit+1)*j.grain); task++ {
		j.run(task)
	}
	if j.pending.Add(-1) == 0 {
		j.finished <- struct{}{}
	}
}
