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
	p.free.New = func() any { return newJob(size) }
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
					most := 1 + tasks%3
					pool.Sweep(tasks, most, func(from, to int) {
						if to-from > most {
							t.Errorf("%d tasks at a time, at most %d wanted", to-from, most)
						}
						for task := from; task < to; task++ {
							counts[task].Add(1)
							switch {
							case task%7 == caller: // some tasks take long, so that others take over
								for range 10000 {
									counts[task].Load()
								}
							case task%16 == 3:
								var inner atomic.Int32
								pool.Sweep(9, 2, func(from, to int) { inner.Add(int32(to - from)) })
								pool.Run(9, func(int) { inner.Add(1) })
								if inner.Load() != 18 {
									t.Errorf("nested: %d of 18 tasks", inner.Load())
								}
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

// More tasks than a span has units for are still run at most so many at a time.
func TestSweepOfVeryManyTasks(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	const tasks, most = 2*mostUnits + 5, 2
	var ran atomic.Int64
	pool.Sweep(tasks, most, func(from, to int) {
		if to-from > most {
			t.Errorf("%d tasks at a time, at most %d wanted", to-from, most)
		}
		ran.Add(int64(to - from))
	})
	if ran.Load() != tasks {
		t.Errorf("%d of %d tasks ran", ran.Load(), tasks)
	}
}

// A caller without any worker runs its own range first, and then halves of the others' ranges, each in
// increasing order.
func TestSweepTakesOver(t *testing.T) {
	for _, c := range []struct {
		size, tasks, most int
		want              [][2]int
	}{
		{2, 8, 1, [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {6, 7}, {7, 8}, {5, 6}, {4, 5}}},
		{2, 14, 3, [][2]int{{0, 3}, {3, 6}, {6, 7}, {10, 13}, {13, 14}, {8, 10}, {7, 8}}},
		{3, 9, 1, [][2]int{{0, 1}, {1, 2}, {2, 3}, {4, 5}, {5, 6}, {3, 4}, {7, 8}, {8, 9}, {6, 7}}},
		{4, 2, 1, [][2]int{{0, 1}, {1, 2}}},
		{4, 9, 9, [][2]int{{0, 9}}},
		{1, 9, 4, [][2]int{{0, 4}, {4, 8}, {8, 9}}},
	} {
		var order [][2]int
		idle(c.size).Sweep(c.tasks, c.most, func(from, to int) { order = append(order, [2]int{from, to}) })
		if !slices.Equal(order, c.want) {
			t.Errorf("%d workers, %d tasks, %d at a time: order %v, want %v", c.size, c.tasks, c.most, order, c.want)
		}
	}
}

// Each worker begins with the same range in every sweep, whatever the order in which they come.
func TestSweepKeepsRanges(t *testing.T) {
	pool := idle(3)
	for _, arrivals := range [][]int{{0, 1, 2}, {2, 1, 0}} {
		var first [3]int
		worker := 0
		j := newJob(pool.size)
		ticket := j.open(3, work{some: func(from, _ int) { first[worker] = from }, tasks: 12, most: 1})
		for _, worker = range arrivals {
			j.runUnits(j.spans[worker].takeFirst(ticket.round, 1))
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
	pool.Sweep(tasks, 1, func(task, _ int) {
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
	j := newJob(pool.size)
	late := j.open(2, work{some: func(int, int) {}, tasks: 6, most: 1})
	late.run(0)
	pool.wait(j) // returns although worker 1 has not come
	counts := make([]int, 5)
	next := j.open(2, work{some: func(i, _ int) { counts[i]++ }, tasks: 5, most: 1})
	late.run(1)
	if slices.Max(counts) != 0 {
		t.Errorf("a worker of an earlier round ran tasks: %v", counts)
	}
	next.run(0)
	late.run(1)
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
		pool.Sweep(30, 2, func(from, to int) {
			if from <= 5 && 5 < to {
				pool.Close()
			}
			ran.Add(int32(to - from))
		})
		pool.Sweep(30, 2, func(from, to int) { ran.Add(int32(to - from)) })
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
	ran := make([]uint8, tasks)
	pool.Run(tasks, func(task int) { ran[task]++ })
	for _, most := range []int{1, 7} {
		pool.Sweep(tasks, most, func(from, to int) {
			for task := from; task < to; task++ {
				ran[task]++
			}
		})
	}
	if i := slices.IndexFunc(ran, func(n uint8) bool { return n != 3 }); i >= 0 {
		t.Errorf("task %d ran %d times, not 3", i, ran[i])
	}
}
