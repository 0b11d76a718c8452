package kernel

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPoolRunsEachTaskOnce, also with callers on many goroutines, nested calls, and idle pauses that park the workers.
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
