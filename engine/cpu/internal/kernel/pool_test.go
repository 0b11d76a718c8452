package kernel

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPoolRunsEachTaskOnce, also with callers on many goroutines, nested calls, and idle pauses
// that park the workers.
func TestPoolRunsEachTaskOnce(t *testing.T) {
	for _, size := range []int{1, 2, 7} {
		pool := NewPool(size)
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				for tasks := range 60 {
					counts := make([]atomic.Int32, tasks)
					pool.Run(tasks, func(i int) {
						counts[i].Add(1)
						if i%16 == 3 {
							var inner atomic.Int32
							pool.Run(9, func(int) { inner.Add(1) })
							if inner.Load() != 9 {
								t.Errorf("nested run: %d of 9 tasks", inner.Load())
							}
						}
					})
					for i := range counts {
						if n := counts[i].Load(); n != 1 {
							t.Errorf("task %d of %d ran %d times", i, tasks, n)
						}
					}
					if tasks%20 == 19 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		callers.Wait()
		pool.Close()
		ran := 0
		pool.Run(1, func(int) { ran++ })
		if ran != 1 {
			t.Error("a closed pool did not run")
		}
	}
}

func TestPoolSize(t *testing.T) {
	var none *Pool
	if none.Size() != 1 {
		t.Error("a nil pool has one worker")
	}
	pool := NewPool(0)
	defer pool.Close()
	if pool.Size() < 1 {
		t.Errorf("size %d", pool.Size())
	}
}

// TestPoolSharedProducts: products from several goroutines on one pool do not disturb one another.
func TestPoolSharedProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 1))
	a, b := randomMatrix(r, 30, 200, 0), randomMatrix(r, 200, 150, 0)
	want := zeros(30, 150)
	MatMul(nil, want, a, b, false)
	pool := NewPool(3)
	defer pool.Close()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 5 {
				got := zeros(30, 150)
				MatMul(pool, got, a, b, false)
				for i, v := range got.Data {
					if v != want.Data[i] {
						t.Errorf("element %d differs", i)
						return
					}
				}
			}
		})
	}
	callers.Wait()
}

func TestBorrowReuses(t *testing.T) {
	pool := NewPool(1)
	a := pool.Borrow(1000)
	pool.Return(a)
	if b := pool.Borrow(900); len(b) != 900 || &b[0] != &a[0] {
		t.Error("the returned buffer was not used again")
	}
	if c := pool.Borrow(1000); &c[0] == &a[0] {
		t.Error("a buffer was lent twice")
	}
	for range 100 {
		pool.Return(make([]float32, 10))
	}
}

// A worker has joined and loses its core before it has a task. It delays nobody, and does no harm
// when it comes back in a later round of the same job.
func TestPoolDoesNotWaitForIdlers(t *testing.T) {
	pool := idle(2)
	j := newJob(pool.size)
	pool.free.New = func() any { return j }
	var late ticket
	ran := 0
	pool.Run(3, func(int) {
		if late.job == nil {
			late, _ = pool.join()
		}
		ran++
	})
	if ran != 3 || late.job != j {
		t.Fatalf("%d of 3 tasks ran; joined %v", ran, late)
	}
	counts := make([]int, 4)
	next := j.open(1, work{each: func(i int) { counts[i]++ }, tasks: 4, most: 1})
	late.run(1)
	next.run(0)
	(&Pool{}).wait(j)
	for i, n := range counts {
		if n != 1 {
			t.Errorf("task %d ran %d times", i, n)
		}
	}
}

// TestPoolUnderForeignLoad runs more busy goroutines than there are cores beside the pool, so that
// workers are stopped at any point.
func TestPoolUnderForeignLoad(t *testing.T) {
	pool := NewPool(4)
	defer pool.Close()
	var stop atomic.Bool
	var load sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		load.Go(func() {
			for !stop.Load() {
				_ = Active()
			}
		})
	}
	counts := make([]atomic.Int32, 64)
	for round := range int32(50) {
		pool.Run(len(counts), func(i int) { counts[i].Add(1) })
		for i := range counts {
			if n := counts[i].Load(); n != round+1 {
				t.Fatalf("round %d: task %d ran %d times", round, i, n)
			}
		}
	}
	stop.Store(true)
	load.Wait()
}

func TestPoolAllocatesNothing(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	each, some := func(int) {}, func(int, int) {}
	if n := testing.AllocsPerRun(200, func() { pool.Run(16, each) }); n >= 1 {
		t.Errorf("a run allocates %v times", n)
	}
	if n := testing.AllocsPerRun(200, func() { pool.Sweep(16, 1, some) }); n >= 1 {
		t.Errorf("a sweep allocates %v times", n)
	}
}

// If a caller waited long for a worker, it assumes for a while that other programs use the cores.
func TestPoolPollsLessBesideOthers(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	if pool.polls() != spins {
		t.Fatal("polling is short from the start")
	}
	for try := 0; pool.crowded.Load() == 0; try++ {
		if try == 100 {
			t.Fatal("no long wait made polling short")
		}
		var second atomic.Bool
		begun := make(chan struct{})
		pool.Run(2, func(int) { // the caller and the worker take one each, in either order
			if second.Swap(true) {
				close(begun)
				time.Sleep(time.Duration(try+1) * 5 * foreignWait) // longer than the caller polls, however slow it is
			} else {
				<-begun
			}
		})
	}
	if pool.polls() != spinsCrowded {
		t.Error("polling is not short after a long wait")
	}
	pool.crowded.Store(0)
	if pool.polls() != spins {
		t.Error("polling stays short")
	}
}
