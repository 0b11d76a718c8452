package kernel

import "sync"

// turns lets tasks of one [Pool.Run] wait for earlier ones. Run starts tasks in increasing order, so
// a task that another waits for is running or has ended.
type turns struct {
	mu    sync.Mutex
	ended []bool
	next  sync.Cond // on mu
}

func newTurns(tasks int) *turns {
	t := &turns{ended: make([]bool, tasks)}
	t.next.L = &t.mu
	return t
}

// await returns when the task has ended.
func (t *turns) await(task int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.ended[task] {
		t.next.Wait()
	}
}

// end ends the task.
func (t *turns) end(task int) {
	t.mu.Lock()
	t.ended[task] = true
	t.mu.Unlock()
	t.next.Broadcast()
}
