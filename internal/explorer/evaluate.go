package explorer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

// EvalVersion is the metric with the version of the weights that an evaluation measured.
const EvalVersion = rundir.EvalVersion

// evalSeed makes evaluations draw other random numbers than training at the same step.
const evalSeed = 0x6576616c

// evaluateFirst evaluates before the next step or, if evaluations run beside the steps, from then on.
// step is 0, or the step whose evaluation a killed run owes.
func (e *Explorer) evaluateFirst(ctx context.Context, step int64) error {
	switch {
	case len(e.opts.EvalTasksets) == 0:
	case e.opts.EvalParallel:
		return e.evaluateBeside(ctx, step)
	default:
		if err := e.evaluate(ctx, trinity.Record{Step: step, Metrics: trinity.Metrics{}}); err != nil {
			return err
		}
	}
	e.opts.Agenda.evaluates(nil)
	return nil
}

// evaluate runs every evaluation taskset with one version of the weights, adds the results to the
// step's record and logs it.
func (e *Explorer) evaluate(ctx context.Context, r trinity.Record) error {
	return e.opts.Weights.Held(ctx, func(version int64) error {
		m, err := Evaluate(ctx, e.opts.Runner, e.opts.Recorder, e.opts.EvalTasksets, r.Step, "eval/")
		if err != nil {
			return fmt.Errorf("evaluation at step %d: %w", r.Step, err)
		}
		r.Metrics.Merge("", m)
		r.Metrics[EvalVersion] = float64(version)
		return e.opts.Recorder.Log(ctx, r)
	})
}

// evaluateBeside begins an evaluation that runs beside the steps after step, once the one before has
// ended. It has a record of its own, and the state owes it until it is logged.
func (e *Explorer) evaluateBeside(ctx context.Context, step int64) error {
	if err := e.evaluated(ctx); err != nil {
		return err
	}
	// This loads the version that the next step would begin with, if it is there. Evaluations that follow
	// one another without a break would otherwise keep one version in use until the end.
	if _, err := e.opts.Weights.Wait(ctx, 0, e.opts.Pace.Newest(step+1)); err != nil {
		return err
	}
	over := make(chan struct{})
	e.evaluating = over
	e.opts.Agenda.evaluates(&step)
	e.beside(func(ctx context.Context) error {
		err := e.evaluate(ctx, trinity.Record{Step: step, Metrics: trinity.Metrics{}})
		if err = errors.Join(err, failEvaluated.Hit("")); err != nil {
			return err // over stays open: the run ends, and owes this evaluation
		}
		e.opts.Agenda.evaluates(nil)
		close(over)
		return nil
	})
	return nil
}

// evaluated waits until no evaluation runs beside the steps.
func (e *Explorer) evaluated(ctx context.Context) error {
	if e.evaluating == nil {
		return nil
	}
	_, err := receive(ctx, e.evaluating)
	return err
}

// Answers is a [Recorder] that also keeps the answers of evaluations.
type Answers interface {
	// Answered gets the rollouts of a task that ended, and why others failed. step is the evaluation's.
	Answered(step int64, task *trinity.Task, group trinity.Group, failed []error) error
	// Evaluated tells that Answered has got all tasks of the evaluation at a step.
	Evaluated(step int64) error
}

// answers hands the outcomes of tasks to a recorder, in the order of the tasks.
type answers struct {
	to   Answers
	step int64

	mu    sync.Mutex
	ended []*outcome // by task; nil before its end
	next  int        // the first task that the recorder still waits for
}

// add hands over the outcome of a task once the outcomes of all tasks before it are handed over.
func (a *answers) add(task int, o *outcome) (err error) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.ended[task] = o; err == nil && a.next < len(a.ended) && a.ended[a.next] != nil; a.next++ {
		err = a.to.Answered(a.step, a.ended[a.next].task, a.ended[a.next].group, a.ended[a.next].failed)
	}
	return err
}

// rest hands over what an evaluation that was cut has kept.
func (a *answers) rest() (err error) {
	if a == nil {
		return nil
	}
	for _, o := range a.ended[a.next:] {
		if o != nil && err == nil {
			err = a.to.Answered(a.step, o.task, o.group, o.failed)
		}
	}
	return err
}

// Evaluate runs all rows of the tasksets and returns, per taskset and metric, mean@k, std@k and
// best@n, worst@n for n = 2, 4, 8 … k. The recorder learns of every rollout that failed or has no
// valid reward.
//
// Unlike Trinity-RFT: k is repeat_times, also for a task of which a run has failed, because the name
// of a metric must not depend on failures; and best@n and worst@n come from other random numbers.
func Evaluate(
	ctx context.Context, r *Runner, to Recorder, sets []*Taskset, step int64, prefix string,
) (trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	start := time.Now()
	runner := *r
	runner.Seed ^= evalSeed
	keeper, keeps := to.(Answers)
	for _, set := range sets {
		tasks, err := set.all()
		if err != nil {
			return nil, err
		}
		if keeps {
			runner.answers = &answers{to: keeper, step: step, ended: make([]*outcome, len(tasks))}
		}
		outcomes, err := runner.run(ctx, step, tasks)
		if err != nil {
			return nil, errors.Join(err, runner.answers.rest())
		}
		if f := record(to, outcomes); f.first != "" {
			to.Say(fmt.Sprintf("evaluation of %s at step %d: %s", set.Template.Taskset, step, &f))
		}
		metrics.Merge(prefix+set.Template.Taskset+"/", evalMetrics(outcomes, set.Template.GroupSize))
	}
	if keeps {
		if err := keeper.Evaluated(step); err != nil {
			return nil, err
		}
	}
	metrics["time/eval"] = time.Since(start).Seconds()
	tell(r.Tracer, trinity.RoleEvaluation, step, trinity.SpanEvaluation, "", "", start)
	return metrics, nil
}

// evalMetrics aggregates the metrics of each task's k rollouts over tasks.
func evalMetrics(outcomes []*outcome, k int) trinity.Metrics {
	perMetric := map[string][][]float64{} // metric → task → its runs
	failed, invalid := 0, 0
	for _, o := range outcomes {
		failed += len(o.failed)
		invalid += len(unscored(o.group))
		for name, v := range perRun(o.group) {
			perMetric[name] = append(perMetric[name], v)
		}
	}
	m := trinity.Metrics{
		"finished_task_count": float64(len(outcomes)), "failed_run_count": float64(failed), "invalid_reward_count": float64(invalid),
	}
	for _, name := range sortedNames(perMetric) {
		tasks := perMetric[name]
		m[fmt.Sprintf("%s/mean@%d", name, k)] = over(tasks, mean)
		m[fmt.Sprintf("%s/std@%d", name, k)] = over(tasks, std)
		if k == 1 {
			continue
		}
		rng := rand.New(rand.NewPCG(42, 0))
		for n := 2; ; n = min(2*n, k) {
			best, worst := bootstrap(rng, tasks, n)
			m[fmt.Sprintf("%s/best@%d", name, n)], m[fmt.Sprintf("%s/worst@%d", name, n)] = best, worst
			if n == k {
				break
			}
		}
	}
	return m
}

// bootstrap estimates the best and the worst of n runs by 1,000 draws with replacement, as means
// over tasks.
func bootstrap(rng *rand.Rand, tasks [][]float64, n int) (best, worst float64) {
	const draws = 1000
	for _, runs := range tasks {
		for range draws {
			hi, lo := math.Inf(-1), math.Inf(1)
			for range n {
				v := runs[rng.IntN(len(runs))]
				hi, lo = max(hi, v), min(lo, v)
			}
			best, worst = best+hi, worst+lo
		}
	}
	count := float64(draws * len(tasks))
	return best / count, worst / count
}

// over returns the mean over tasks of f.
func over(tasks [][]float64, f func([]float64) float64) float64 {
	values := make([]float64, len(tasks))
	for i, runs := range tasks {
		values[i] = f(runs)
	}
	return mean(values)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// std returns the population standard deviation.
func std(v []float64) float64 {
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v)))
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
