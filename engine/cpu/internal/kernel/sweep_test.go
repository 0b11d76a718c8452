package kernel

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// idle returns a pool without goroutines: a test is its worker.
func idle(size int) *Pool {
	p := &Pool{size: size}
	p.wake.L = &p.mu
	p.free.New = func() any { return p.newJob() }
	return p
}

func TestSweepRunsEachTaskOnce(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8} {
		pool := NewPool(size)
		var callers sync.WaitGroup
		for caller := range 3 {
			callers.Go(func() {
				for tasks := range 60 {
					counts := make([]atomic.Int32, tasks)
					pool.Sweep(tasks, func(task int) {
						counts[task].Add(1)
						switch {
						case task%7 == caller: // some tasks take long, so that others take over
							for range 10000 {
								counts[task].Load()
							}
						case task%16 == 3:
							var inner atomic.Int32
							pool.Sweep(9, func(int) { inner.Add(1) })
							pool.Run(9, func(int) { inner.Add(1) })
							if inner.Load() != 18 {
								t.Errorf("nested: %d of 18 tasks", inner.Load())
							}
						}
					})
					for i := range counts {
						if n := counts[i].Load(); n != 1 {
							t.Errorf("%d workers, %d tasks: task %d ran %d times", size, tasks, i, n)
						}
					}
				}
			})
		}
		callers.Wait()
		pool.Close()
	}
}

// A caller without any worker runs its own range first, and then halves of the others' ranges, each in
// increasing order.
func TestSweepTakesOver(t *testing.T) {
	for _, c := range []struct {
		size, tasks int
		want        []int
	}{
		{2, 8, []int{0, 1, 2, 3, 6, 7, 5, 4}},
		{3, 9, []int{0, 1, 2, 4, 5, 3, 7, 8, 6}},
		{4, 2, []int{0, 1}},
	} {
		var order []int
		idle(c.size).Sweep(c.tasks, func(task int) { order = append(order, task) })
		if !slices.Equal(order, c.want) {
			t.Errorf("%d workers, %d tasks: order %v, want %v", c.size, c.tasks, order, c.want)
		}
	}
}

// Each worker begins with the same range in every sweep, whatever the order in which they come.
func TestSweepKeepsRanges(t *testing.T) {
	pool := idle(3)
	for _, arrivals := range [][]int{{0, 1, 2}, {2, 1, 0}} {
		var first [3]int
		worker := 0
		j := pool.newJob()
		ticket := j.open(12, 3, func(task int) { first[worker] = task })
		for _, worker = range arrivals {
			from, _ := j.spans[worker].take(ticket.round, false)
			j.runUnit(from)
		}
		if first != [3]int{0, 4, 8} {
			t.Errorf("the workers %v begin with %v", arrivals, first)
		}
	}
}

// A worker that stops in a task holds that task alone: the caller runs the rest of its range.
func TestSweepDoesNotWaitForStoppedWorkers(t *testing.T) {
	const tasks = 40
	pool := NewPool(2)
	defer pool.Close()
	var counts [tasks]atomic.Int32
	var left atomic.Int32
	left.Store(tasks)
	rest, begun := make(chan struct{}), make(chan struct{})
	pool.Sweep(tasks, func(task int) {
		counts[task].Add(1)
		switch task {
		case 0:
			<-begun // so that the worker has its first task
		case tasks / 2:
			close(begun)
			select {
			case <-rest:
			case <-time.After(time.Minute):
				t.Error("a stopped worker holds other tasks than its own")
			}
		}
		if left.Add(-1) == 1 {
			close(rest)
		}
	})
	for i := range counts {
		if n := counts[i].Load(); n != 1 {
			t.Errorf("task %d ran %d times", i, n)
		}
	}
}

// A worker has joined a sweep and loses its core before it has a task. It delays nobody, and does no
// harm when it comes back in a later round of the same job.
func TestSweepDoesNotWaitForIdlers(t *testing.T) {
	pool := idle(2)
	j := pool.newJob()
	late := j.open(6, 2, func(int) {})
	late.work(0)
	pool.wait(j) // returns although worker 1 has not come
	counts := make([]int, 5)
	next := j.open(5, 2, func(i int) { counts[i]++ })
	late.work(1)
	if slices.Max(counts) != 0 {
		t.Errorf("a worker of an earlier round ran tasks: %v", counts)
	}
	next.work(0)
	late.work(1)
	pool.wait(j)
	for i, n := range counts {
		if n != 1 {
			t.Errorf("task %d ran %d times", i, n)
		}
	}
}

func TestCloseDuringSweep(t *testing.T) {
	for range 50 {
		pool := NewPool(3)
		var ran atomic.Int32
		pool.Sweep(30, func(task int) {
			if task == 5 {
				pool.Close()
			}
			ran.Add(1)
		})
		pool.Sweep(30, func(int) { ran.Add(1) })
		if n := ran.Load(); n != 60 {
			t.Fatalf("%d of 60 tasks ran", n)
		}
	}
}

// More tasks than a span counts share its units.
func TestManyTasks(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	const tasks = 2*mostUnits + 5
	for _, share := range []func(int, func(int)){pool.Run, pool.Sweep} {
		ran := make([]uint8, tasks)
		share(tasks, func(task int) { ran[task]++ })
		if i := slices.IndexFunc(ran, func(n uint8) bool { return n != 1 }); i >= 0 {
			t.Errorf("task %d ran %d times", i, ran[i])
		}
	}
}
