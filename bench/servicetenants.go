package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	wire "github.com/trinity-go/trinity/internal/wire/tinker"
)

// tenants are clients that train in turn, or one that does all of their steps.
type tenants struct {
	*serving
	models []*wire.Training
	turns  int
}

const tenantCount = 8

func newTenants(a *assignment) (task, error) {
	s, err := newServing(a)
	if err != nil {
		return nil, err
	}
	models, err := s.tenants(a.Lone)
	return &tenants{s, models, tenantCount}, err
}

// run returns the tokens that all of them train a second.
func (t *tenants) run(int) (sample, error) {
	var all errgroup.Group
	start := time.Now()
	for _, m := range t.models {
		all.Go(func() error {
			for range t.turns / len(t.models) {
				if err := trainStep(m, t.data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all.Wait()
	return sample{Value: float64(t.turns*len(t.data)*tokensOf(&t.data[0])) / time.Since(start).Seconds()}, err
}

func tokensOf(d *wire.Datum) int { return len(d.Input[0].Tokens) / 4 }

// further opens one tenant more in each run, and lets it train a step.
type further struct {
	*serving
	memory bool // that it takes is told, in MB; else the seconds until it is open
}

func newFurther(memory bool) func(a *assignment) (task, error) {
	return func(a *assignment) (task, error) {
		s, err := newServing(a)
		return &further{s, memory}, err
	}
}

func (f *further) run(int) (sample, error) {
	before, err := resident()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	m, err := f.tenant()
	opened := time.Since(start)
	if err == nil {
		err = trainStep(m, f.data)
	}
	if err != nil || !f.memory {
		return sample{Value: opened.Seconds()}, err
	}
	after, err := resident()
	return sample{Value: float64(after-before) / 1e6}, err
}

// resident returns the bytes of memory that this process has, without what it could give back.
func resident() (int64, error) {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(data))
	if len(f) < 2 {
		return 0, fmt.Errorf("/proc/self/statm is %q", data)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// restored writes the state of a model, and has it back.
type restored struct {
	*serving
	model *wire.Training
}

func newRestored(a *assignment) (task, error) {
	s, err := newServing(a)
	if err != nil {
		return nil, err
	}
	m, err := s.tenant()
	if err == nil {
		err = trainStep(m, s.data)
	}
	return &restored{s, m}, err
}

// run returns the seconds from save_state to the answer of load_state_with_optimizer.
func (r *restored) run(number int) (sample, error) {
	ctx, start := context.Background(), time.Now()
	path, err := r.model.Save(ctx, wire.Weights, fmt.Sprint("run-", number))
	if err == nil {
		err = r.model.Load(ctx, path)
	}
	s := sample{Value: time.Since(start).Seconds()}
	if err == nil {
		err = r.Remove(ctx, path)
	}
	return s, err
}
