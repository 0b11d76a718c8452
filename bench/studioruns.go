package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// studioSize is the size of the runs that the studio shows in a measurement.
type studioSize struct {
	runs, steps, metrics, spans int // spans are of the first run alone
}

// writeStudioRuns writes finished runs below a directory, as the jsonl monitor and a tracer write them.
func writeStudioRuns(dir string, size studioSize) error {
	for i := range size.runs {
		run := filepath.Join(dir, "studio", fmt.Sprintf("run%03d", i))
		if err := writeStudioMetrics(filepath.Join(run, "monitor"), uint64(i), size); err != nil {
			return err
		}
		if i > 0 || size.spans == 0 {
			continue
		}
		if err := writeStudioSpans(filepath.Join(run, rundir.Traces), size.spans); err != nil {
			return err
		}
	}
	return nil
}

// studioBegan is when the runs began.
var studioBegan = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// studioNames returns the names of a role's metrics in order, the usual ones among them.
func studioNames(role string, n int) (names []string) {
	if role == trinity.RoleTrainer {
		names = []string{"actor/entropy_loss", "actor/final_loss", "actor/grad_norm", "actor/ppo_kl"}
	} else {
		names = []string{"rollout/response_length/mean", "rollout/reward/mean"}
	}
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("%s/part%02d/number%03d", role, i%20, i))
	}
	names = names[:n]
	slices.Sort(names)
	return names
}

// writeStudioMetrics writes the metrics.jsonl of a run: of each step a record of the explorer and one of
// the trainer, which share the metrics.
func writeStudioMetrics(dir string, seed uint64, size studioSize) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out, random := bufio.NewWriterSize(file, 1<<20), rand.New(rand.NewPCG(seed, 0))
	names := map[string][]string{
		trinity.RoleExplorer: studioNames(trinity.RoleExplorer, size.metrics-size.metrics/2),
		trinity.RoleTrainer:  studioNames(trinity.RoleTrainer, size.metrics/2),
	}
	var line []byte
	for step := 1; step <= size.steps; step++ {
		for i, role := range []string{trinity.RoleExplorer, trinity.RoleTrainer} {
			at := studioBegan.Add(time.Duration(2*step+i) * 1500 * time.Millisecond).Format("2006-01-02T15:04:05.000Z07:00")
			line = fmt.Appendf(line[:0], `{"step":%d,"role":%q,"time":%q,"metrics":{`, step, role, at)
			for k, name := range names[role] {
				if k > 0 {
					line = append(line, ',')
				}
				line = append(append(append(line, '"'), name...), '"', ':')
				line = strconv.AppendFloat(line, 1-math.Exp(-float64(step)/3000)+random.Float64()/1024, 'g', 8, 64)
			}
			line = append(line, '}', '}', '\n')
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// writeStudioSpans writes the trace of a run whose explorer has eight rollouts at once, and whose trainer
// waits for it.
func writeStudioSpans(dir string, n int) (err error) {
	w, err := trace.New(trace.Options{
		Dir: dir, Spans: true, Text: func(int32) string { return "" }, Say: func(line string) { err = errors.New(line) },
	})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 0))
	for i, step := 0, int64(1); i < n; step++ {
		begin := studioBegan.Add(time.Duration(step) * 20 * time.Second)
		for task := 0; task < 8 && i < n; task++ {
			at, id := begin, trinity.ExperienceID{Step: step, Task: fmt.Sprintf("sums/%d", task), Run: 0}
			for _, kind := range []trinity.SpanKind{trinity.SpanCall, trinity.SpanReward, trinity.SpanRollout} {
				end := at.Add(time.Duration(1+random.IntN(5000)) * time.Millisecond)
				w.Span(trinity.Span{Role: trinity.RoleExplorer, Kind: kind, Name: id.Task, Step: step, Experience: id, Begin: at, End: end})
				at, i = end, i+1
			}
		}
		for k, kind := range []trinity.SpanKind{trinity.SpanWait, trinity.SpanForward, trinity.SpanBackward, trinity.SpanUpdate} {
			at := begin.Add(time.Duration(k) * 4 * time.Second)
			s := trinity.Span{Role: trinity.RoleTrainer, Kind: kind, Step: step, Begin: at, End: at.Add(3 * time.Second)}
			if kind == trinity.SpanWait {
				s.For = trinity.RoleExplorer
			}
			w.Span(s)
			i++
		}
		if step%64 == 0 {
			time.Sleep(20 * time.Millisecond) // a tracer leaves out what comes faster than it writes
		}
	}
	return errors.Join(w.Close(), err)
}

// writeStudio writes the runs that the arguments ask for, for measurements by hand.
func writeStudio(args []string) error {
	if len(args) != 5 {
		return errors.New("usage: bench studioruns DIR RUNS STEPS METRICS SPANS")
	}
	var n [4]int
	for i, text := range args[1:] {
		var err error
		if n[i], err = strconv.Atoi(text); err != nil || n[i] < 0 {
			return fmt.Errorf("%q is no number of runs, steps, metrics or spans", text)
		}
	}
	return writeStudioRuns(args[0], studioSize{n[0], n[1], n[2], n[3]})
}
