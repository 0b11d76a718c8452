package kernel

import (
	"sync"
	"sync/atomic"
	"time"
)

// spins bounds the polling of an idle worker, or of a caller that waits for the last tasks, before
// it parks. It lasts about a hundred microseconds, as long as waking a parked thread in a virtual
// machine. To poll for as long as waking costs is never twice as bad as the best choice (Karlin et
// al. 1991), and it spans the gap between two parallel operations.
//
// If other programs want the cores, polling takes them from threads with work, perhaps from the
// very worker that the caller waits for. If a parked caller waits for longer than foreignWait, the
// pool assumes other programs: the next crowdedWaits waits poll only spinsCrowded times.
const (
	spins        = 300_000
	spinsCrowded = 20_000
	foreignWait  = 2 * time.Millisecond // a core's other tasks get at least that at once
	crowdedWaits = 1000
)

// Pool runs tasks on a fixed number of goroutines, including the caller. Any number of goroutines
// may call [Pool.Run] and [Pool.Sweep] at once, also from inside a task: each caller works on its own
// tasks, and idle workers help callers that have tasks left. A nil *Pool runs everything on the
// caller.
type Pool struct {
	size    int
	waiting atomic.Int32 // jobs that workers may join
	crowded atomic.Int64 // number of next waits that poll briefly, because other programs want the cores
	mu      sync.Mutex
	wake    sync.Cond // on mu: a job arrived, or the pool closed
	jobs    []ticket  // on mu
	parked  int       // on mu: workers in wake.Wait
	closed  bool      // on mu
	scratch scratchList
	free    sync.Pool
}

// job is one Run or Sweep. Later ones reuse its memory; each is a round.
//
// A caller waits only for workers that have taken a task. A worker that loses its core before that
// may continue rounds later: it then finds that its round is over, and touches nothing else.
type job struct {
	round    uint64        // of the caller's ticket
	work                   // does not change while a task of the round is unfinished
	spans    []span        // by worker; the caller is worker 0
	pending  atomic.Int64  // unfinished units, plus one for the caller
	finished chan struct{} // receives when the last unit ends after the caller parked
}

// work is what a round does.
type work struct {
	each  func(task int)     // of Run
	some  func(from, to int) // of Sweep
	tasks int
	grain int // tasks in a unit of a span
	most  int // tasks that some takes at a time; 1 beside each
}

// ticket lets a worker into one round of a job.
type ticket struct {
	job   *job
	round uint64
	spans int // 1 if all workers take from the first span, else one for each worker
	most  int // units that a worker takes at a time
}

// NewPool starts a pool of size goroutines, counting all callers as one. Size 0 means the number of
// cores that [Cores] returns.
func NewPool(size int) *Pool {
	if size <= 0 {
		size = Cores().Used
	}
	settle()
	p := &Pool{size: size}
	p.wake.L = &p.mu
	p.free.New = func() any { return newJob(size) }
	for worker := 1; worker < size; worker++ {
		go p.work(worker)
	}
	return p
}

func newJob(workers int) *job {
	return &job{spans: make([]span, workers), finished: make(chan struct{}, 1)}
}

// Size returns the number of goroutines that work on one Run or Sweep.
func (p *Pool) Size() int {
	if p == nil {
		return 1
	}
	return p.size
}

// Close ends the workers. Afterwards Run and Sweep still work, on the caller alone.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
}

// Run calls run(0) … run(tasks-1), each once, in parallel. Calls begin in this order and end in any.
// Run returns when all calls have returned.
func (p *Pool) Run(tasks int, run func(task int)) {
	if p.Size() == 1 || tasks <= 1 {
		for i := range tasks {
			run(i)
		}
		return
	}
	p.share(1, work{each: run, tasks: tasks, most: 1})
}

// Sweep calls run on ranges of at most so many tasks, in parallel, until all of [0, tasks) have run
// once. It is for tasks that read memory side by side: each worker goes through a stretch of them in
// increasing order, the same one in each Sweep of as many tasks, so that what it prefetches behind a
// range is the beginning of its next one. A worker whose stretch has ended takes over the second half
// of what another one has left. Sweep returns when all calls have returned.
func (p *Pool) Sweep(tasks, most int, run func(from, to int)) {
	if p.Size() == 1 || tasks <= most {
		for from := 0; from < tasks; from += most {
			run(from, min(tasks, from+most))
		}
		return
	}
	p.share(p.Size(), work{some: run, tasks: tasks, most: most})
}

// share hands out work from so many spans.
func (p *Pool) share(spans int, w work) {
	j := p.free.Get().(*job)
	t := j.open(spans, w)
	p.post(t)
	t.run(0)
	p.retract(t)
	p.wait(j)
	j.work = work{}
	p.free.Put(j)
}

// open begins a round.
func (j *job) open(spans int, w work) ticket {
	w.grain = (w.tasks + mostUnits - 1) / mostUnits
	units := (w.tasks + w.grain - 1) / w.grain
	j.work = w
	j.pending.Store(int64(units) + 1)
	j.round = (j.round + 1) % rounds
	for i := range spans {
		j.spans[i].set(j.round, (units*i+spans-1)/spans, (units*(i+1)+spans-1)/spans)
	}
	return ticket{j, j.round, spans, max(1, w.most/w.grain)}
}

// post offers a round to the workers.
func (p *Pool) post(t ticket) {
	p.mu.Lock()
	p.jobs = append(p.jobs, t)
	p.waiting.Add(1)
	wake := min(p.parked, (t.job.tasks-1)/t.job.most)
	p.mu.Unlock()
	for range wake {
		p.wake.Signal()
	}
}

// retract removes a round from the list, so that no further worker joins.
func (p *Pool) retract(t ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.jobs {
		if other == t {
			p.jobs = append(p.jobs[:i], p.jobs[i+1:]...)
			p.waiting.Add(-1)
			return
		}
	}
}

// polls returns how many times the next wait polls.
func (p *Pool) polls() int {
	if p.crowded.Load() > 0 {
		p.crowded.Add(-1)
		return spinsCrowded
	}
	return spins
}

// wait returns when all tasks have ended.
func (p *Pool) wait(j *job) {
	for range p.polls() {
		if j.pending.Load() == 1 {
			return
		}
	}
	if j.pending.Add(-1) > 0 {
		parked := time.Now()
		<-j.finished
		if time.Since(parked) > foreignWait {
			p.crowded.Store(crowdedWaits)
		}
	}
}

// work is the loop of one worker.
func (p *Pool) work(worker int) {
	for {
		t, ok := p.join()
		if !ok {
			return
		}
		t.run(worker)
		p.retract(t)
	}
}

// join waits for a round to work on. It returns false once the pool is closed.
func (p *Pool) join() (t ticket, ok bool) {
	for range p.polls() {
		if p.waiting.Load() > 0 {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return ticket{}, false
		}
		if n := len(p.jobs); n > 0 {
			return p.jobs[n-1], true
		}
		p.parked++
		p.wake.Wait()
		p.parked--
	}
}

// runRows calls run on consecutive ranges of [0, rows) in parallel. cost is roughly the number of
// elements that one row touches; runRows makes ranges long enough to be worth a task.
func (p *Pool) runRows(rows, cost int, run func(from, to int)) {
	const grain = 16 << 10 // elements: a few microseconds
	step := max(1, grain/max(cost, 1))
	if tasks := 4 * p.Size(); rows > tasks*step {
		step = (rows + tasks - 1) / tasks
	}
	p.Sweep(rows, step, run)
}
