package studio

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// tail is what the list of runs tells from a metrics.jsonl, without reading all of it.
type tail struct {
	rundir.Position       // that of the file: what is read is at its end
	size, modified  int64 // of the file when it was read
	sparkSize       int64 // of the file when the sparkline was read

	trained, explored int64 // newest steps of the trainer and of others
	reward            string
	spark             []float64 // values of the reward, from the first to the last
	first, last       int64     // times of the first and the newest record, ms; 0 if unknown
	pace              float64   // ms a step of the trainer; 0 if unknown
}

const (
	tailSize  = 256 << 10
	sparkRead = 32 << 10 // bytes that are read for a point of a sparkline
	sparkLen  = 60
)

// readTail reads the end of the file in a monitor directory, and points from all of it. before is what
// an earlier call returned; it may be nil. starts are those of the trainer's processes.
func readTail(dir string, starts []time.Time, before *tail) (*tail, error) {
	t := &tail{trained: -1, explored: -1}
	if before != nil {
		t.Position = before.Position
	}
	f, info, isSame, err := t.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := info.Size()
	if !isSame { // a resume has cut it back, or it is of another run
		before = nil
	}
	if before != nil && before.size == size && before.modified == info.ModTime().UnixNano() {
		return before, nil
	}
	t.size, t.modified = size, info.ModTime().UnixNano()
	value, isFirst := 0., true
	for n, lines := int64(tailSize), 0; lines <= 4; n *= 8 { // a line may be long
		if lines, value, err = t.read(f, max(0, size-n), size, starts); err != nil {
			return nil, err
		}
		if n >= min(size, 64*tailSize) {
			break
		}
	}
	_ = rundir.EachLine(f, 0, min(size, tailSize), func(line []byte, _ int64) {
		if isFirst {
			h, _, _ := rundir.Scan(line, nil)
			t.first, isFirst = h.Time, false
		}
	})
	if before != nil && before.reward == t.reward && before.size <= size && size-before.sparkSize < size/32 {
		t.spark, t.sparkSize = slices.Clone(before.spark), before.sparkSize
	} else if t.reward != "" {
		t.spark, t.sparkSize = sparkOf(f, size, t.reward), size
	}
	if !math.IsNaN(value) && len(t.spark) > 0 {
		t.spark[len(t.spark)-1] = value
	}
	return t, nil
}

// read notes what the lines between two offsets tell. It returns how many there are, and the newest value of the reward,
// NaN if there is none. The first one may be a part of a line, which is no record.
func (t *tail) read(f io.ReaderAt, from, to int64, starts []time.Time) (lines int, value float64, err error) {
	var pairs []rundir.Pair
	newest := map[string]float64{}
	var steps, times []int64 // of the trainer
	err = rundir.EachLine(f, from, to, func(line []byte, _ int64) {
		lines++
		h, found, err := rundir.Scan(line, pairs)
		if pairs = found; err != nil {
			return
		}
		t.last = max(t.last, h.Time)
		if string(h.Role) == trinity.RoleTrainer {
			t.trained = max(t.trained, h.Step)
			steps, times = append(steps, h.Step), append(times, h.Time)
		} else {
			t.explored = max(t.explored, h.Step)
		}
		for _, p := range pairs {
			if rank(string(p.Name)) < unranked {
				if v, ok := rundir.ValueOf(p.Value); ok {
					newest[string(p.Name)] = v
				}
			}
		}
	})
	if n := len(steps); n > 1 && steps[n-1] > steps[0] {
		lived := time.Duration(0)
		for i, at := range times[1:] {
			lived += rundir.Lived(starts, time.UnixMilli(times[i]), time.UnixMilli(at))
		}
		t.pace = float64(lived.Milliseconds()) / float64(steps[n-1]-steps[0])
	}
	best := unranked
	for name := range newest {
		if r := rank(name); r < best || r == best && name < t.reward {
			best, t.reward = r, name
		}
	}
	if t.reward == "" {
		return lines, math.NaN(), err
	}
	return lines, newest[t.reward], err
}

// unranked is the rank of a metric that stands for no reward.
const unranked = 5

// rank orders the metrics that may stand for the reward of a run: the first is the best.
func rank(name string) int {
	switch {
	case name == "rollout/reward/mean":
		return 0
	case name == "critic/rewards/mean":
		return 1
	case strings.HasPrefix(name, "eval/") || strings.HasPrefix(name, "bench/"):
		switch last := path.Base(name); {
		case strings.Contains(name, "/reward/") && strings.HasPrefix(last, "mean"):
			return 2
		case len(monitor.Evaluations(trinity.Metrics{name: 0})) > 0:
			return 3
		}
	case name == "actor/final_loss":
		return 4
	}
	return unranked
}

// sparkOf returns values of a metric for a small curve of the whole run. Of a long file it reads samples.
func sparkOf(f io.ReaderAt, size int64, metric string) (values []float64) {
	if size <= sparkLen*sparkRead {
		return thinned(valuesIn(f, 0, size, metric, math.MaxInt), sparkLen)
	}
	for i := range int64(sparkLen) {
		from := i * (size - sparkRead) / (sparkLen - 1)
		values = append(values, valuesIn(f, from, from+sparkRead, metric, 1)...)
	}
	return values
}

// valuesIn returns the first values of a metric in the lines between two offsets, as far as they can be read.
func valuesIn(f io.ReaderAt, from, to int64, metric string, most int) (values []float64) {
	var pairs []rundir.Pair
	key := []byte(`"` + metric + `":`)
	_ = rundir.EachLine(f, from, to, func(line []byte, _ int64) {
		if len(values) >= most || !bytes.Contains(line, key) {
			return
		}
		_, pairs, _ = rundir.Scan(line, pairs)
		for _, p := range pairs {
			if v, ok := rundir.ValueOf(p.Value); ok && string(p.Name) == metric {
				values = append(values, v)
			}
		}
	})
	return values
}

// thinned returns at most n of the values, the first and the last among them.
func thinned(values []float64, n int) []float64 {
	if len(values) <= n {
		return values
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = values[i*(len(values)-1)/(n-1)]
	}
	return out
}

// step returns the newest step of the run, of its trainer if it has one.
func (t *tail) step() int64 { return max(cmp.Or(max(t.trained, 0), t.explored), 0) }
