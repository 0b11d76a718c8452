package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// spins bounds the polling of an idle worker, or of a caller waiting for the last tasks, before it parks: ten to twenty
// microseconds, about the gap between two parallel operations of one forward pass.
const spins = 20_000

// Pool runs tasks on a fixed number of goroutines, the caller among them. Any number of goroutines may call [Pool.Run]
// at once, also from inside a task: each caller works on its own tasks, and idle workers help whoever has some left.
// A nil *Pool runs everything on the caller.
type Pool struct {
	size    int
	waiting atomic.Int32 // jobs that workers may join
	mu      sync.Mutex
	wake    sync.Cond // on mu: a job arrived, or the pool closed
	jobs    []*job    // on mu
	parked  int       // on mu: workers in wake.Wait
	closed  bool      // on mu
	scratch scratchList
	free    sync.Pool
}

// job is one Run: tasks [0, n) handed out by a counter.
type job struct {
	run     func(task int)
	n       int64
	next    atomic.Int64
	helpers atomic.Int32  // workers inside, plus one for the caller
	done    chan struct{} // receives when the last worker leaves a caller that parked
}

// NewPool starts a pool of size goroutines, its callers counted as one; size 0 means as many as there are usable cores.
func NewPool(size int) *Pool {
	if size <= 0 {
		size = runtime.GOMAXPROCS(0)
	}
	p := &Pool{size: size}
	p.wake.L = &p.mu
	p.free.New = func() any { return &job{done: make(chan struct{}, 1)} }
	for range size - 1 {
		go p.work()
	}
	return p
}

// Size is how many goroutines work on one Run.
func (p *Pool) Size() int {
	if p == nil {
		return 1
	}
	return p.size
}

// Close ends the workers. Run still works afterwards, on the caller alone.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
}

// Run calls run(0) … run(tasks-1), each once, in no given order and several at a time, and returns when all have
// returned.
func (p *Pool) Run(tasks int, run func(task int)) {
	if p.Size() == 1 || tasks <= 1 {
		for i := range tasks {
			run(i)
		}
		return
	}
	j := p.free.Get().(*job)
	j.run, j.n = run, int64(tasks)
	j.next.Store(0)
	j.helpers.Store(1)
	p.post(j)
	j.work()
	p.retract(j)
	j.wait()
	j.run = nil
	p.free.Put(j)
}

// post offers j to the workers.
func (p *Pool) post(j *job) {
	p.mu.Lock()
	p.jobs = append(p.jobs, j)
	p.waiting.Add(1)
	wake := min(p.parked, int(j.n)-1)
	p.mu.Unlock()
	for range wake {
		p.wake.Signal()
	}
}

// retract takes j off the list, so that no further worker joins.
func (p *Pool) retract(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.jobs {
		if other == j {
			p.jobs = append(p.jobs[:i], p.jobs[i+1:]...)
			p.waiting.Add(-1)
			return
		}
	}
}

// work takes tasks of j until none is left.
func (j *job) work() {
	for i := j.next.Add(1) - 1; i < j.n; i = j.next.Add(1) - 1 {
		j.run(int(i))
	}
}

// wait returns when every worker has left j.
func (j *job) wait() {
	for range spins {
		if j.helpers.Load() == 1 {
			return
		}
	}
	if j.helpers.Add(-1) > 0 {
		<-j.done
	}
}

// leave is a worker's last touch of j.
func (j *job) leave() {
	if j.helpers.Add(-1) == 0 {
		j.done <- struct{}{}
	}
}

// work is the life of one worker.
func (p *Pool) work() {
	for {
		j := p.join()
		if j == nil {
			return
		}
		j.work()
		p.retract(j)
		j.leave()
	}
}

// join waits for a job and enters it; nil when the pool is closed.
func (p *Pool) join() *job {
	for range spins {
		if p.waiting.Load() > 0 {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return nil
		}
		if n := len(p.jobs); n > 0 {
			j := p.jobs[n-1]
			j.helpers.Add(1)
			return j
		}
		p.parked++
		p.wake.Wait()
		p.parked--
	}
}

// runRows calls run on consecutive ranges of [0, rows) in parallel. cost is the rough number of elements that one row
// touches: ranges are made long enough to be worth a task.
func (p *Pool) runRows(rows, cost int, run func(from, to int)) {
	const grain = 16 << 10 // elements: a few microseconds
	step := max(1, grain/max(cost, 1))
	if tasks := 4 * p.Size(); rows > tasks*step {
		step = (rows + tasks - 1) / tasks
	}
	if rows <= step {
		run(0, rows)
		return
	}
	p.Run((rows+step-1)/step, func(task int) {
		run(task*step, min(rows, (task+1)*step))
	})
}
