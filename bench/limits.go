package main

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity/engine/cpu"
)

// limits are what this machine can do, measured in the same session.
type limits struct {
	GFLOPs    float64 `json:"gflops"`              // f32 multiply-adds, counted as two, of all cores, from registers; those of Product where we have no such loop
	Sustained float64 `json:"sustained,omitempty"` // the same as they are half of the time; unknown where we have no such loop
	Product   float64 `json:"product,omitempty"`   // the same in the best matrix product of our kernels
	GBps      float64 `json:"gbps"`                // read from memory by all cores
	Kernels   string  `json:"kernels"`
}

// better takes the greater of each figure.
func (l limits) better(other limits) limits {
	return limits{GFLOPs: max(l.GFLOPs, other.GFLOPs), Sustained: max(l.Sustained, other.Sustained), Product: max(l.Product, other.Product),
		GBps: max(l.GBps, other.GBps), Kernels: l.Kernels}
}

// sayLimits writes what [measureLimits] finds as JSON.
func sayLimits(out io.Writer) error {
	l, err := measureLimits()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(l)
}

// measureLimits measures the kernels with [cpu.MeasureSpeed], and multiply-adds that touch registers
// alone.
func measureLimits() (limits, error) {
	processor, err := cpu.ThisProcessor()
	if err != nil {
		return limits{}, err
	}
	speed, err := cpu.MeasureSpeed()
	if err != nil {
		return limits{}, err
	}
	best, typical := multiplyAdds(processor.Cores)
	return limits{
		GFLOPs: max(speed.Product, best), Sustained: typical, Product: speed.Product, GBps: speed.Read,
		Kernels: processor.Kernels,
	}, nil
}

// multiplyAdds returns the best and the median rate of multiply-adds that touch registers alone, in
// GFLOP/s of all cores, in the fastest of the loops that this processor runs. The two differ where the
// clock falls under load or the host has other guests.
func multiplyAdds(cores int) (best, typical float64) {
	const turns, runs = 1 << 20, 200 // about a second
	for _, loop := range fmaLoops() {
		var rates []float64
		for range runs {
			start := time.Now()
			var running sync.WaitGroup
			for range cores {
				running.Go(func() { loop.run(turns) })
			}
			running.Wait()
			rates = append(rates, float64(cores*turns*loop.flops)/time.Since(start).Seconds()/1e9)
		}
		best, typical = max(best, slices.Max(rates)), max(typical, median(rates))
	}
	return best, typical
}

// fmaLoop is a loop over independent multiply-adds; flops are those of a turn.
type fmaLoop struct {
	run   func(turns int)
	flops int
}
