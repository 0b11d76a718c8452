package monitor

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
)

// consoleMetric is a metric that people see, with its label and its format.
type consoleMetric struct {
	metric, label string
	write         func(float64) string
}

const rewardMetric, accuracyMetric = "rollout/reward/mean", "rollout/accuracy/mean"

var explorerShown = []consoleMetric{
	{rewardMetric, "reward", number},
	{accuracyMetric, "accuracy", number},
	{"rollout/response_length/mean", "length", number},
	{"rollout/tokens_per_second", "rollout", perSecond},
	{"time/explore_step", "", seconds},
	{"rollout/failed_run_count", "failed", positive},
	{"rollout/invalid_reward_count", "invalid", positive},
}

var trainerShown = []consoleMetric{
	{"actor/final_loss", "loss", number},
	{"actor/kl_loss", "kl", number},
	{"actor/grad_norm", "grad", number},
	{"actor/lr", "lr", number},
	{"perf/throughput", "train", perSecond},
	{"time/train_step", "", seconds},
}

// plain makes the lines of a log: one for each step. In a process that explores and trains it is the
// trainer's, with the newest metrics of the explorer.
type plain struct {
	run      Run
	explored *trinity.Record // not shown yet
	last     time.Time       // of the last line
}

// lines returns the lines of a record.
func (p *plain) lines(r trinity.Record) (lines []string) {
	var fields []string
	_, explored := r.Metrics["time/explore_step"]
	_, trained := r.Metrics["time/train_step"]
	if explored && p.run.Trains {
		p.explored = &r
	} else if explored {
		fields = p.fields(&r)
	}
	if trained {
		fields = append(p.fields(p.explored), p.fields(&r)...)
		p.explored = nil
	}
	if len(fields) > 0 {
		lines = append(lines, p.line(r, fields))
	}
	var evals []string
	for _, e := range Evaluations(r.Metrics) {
		if !RepeatsAccuracy(r.Metrics, e) {
			evals = append(evals, e+" "+number(r.Metrics[e]))
		}
	}
	if len(evals) > 0 {
		lines = append(lines, p.line(r, evals))
	}
	return lines
}

// fields returns the main metrics of a step; none for nil.
func (p *plain) fields(r *trinity.Record) []string {
	switch {
	case r == nil:
		return nil
	case r.Role == trinity.RoleExplorer:
		return append(describe(r.Metrics, explorerShown), waits(r.Metrics, explorerWait)...)
	case p.run.FromData:
		return describe(r.Metrics, trainerShown)
	}
	return append(describe(r.Metrics, trainerShown), waits(r.Metrics, trainerWait)...)
}

// line returns a line with time and step.
func (p *plain) line(r trinity.Record, fields []string) string {
	step := fmt.Sprintf("step %d", r.Step)
	if p.run.TotalSteps > 0 {
		step += fmt.Sprintf("/%d", p.run.TotalSteps)
	}
	return strings.Join(append([]string{r.Time.Format(time.TimeOnly), step}, fields...), "  ")
}

// waiting returns a line that says what explorer and trainer are doing.
func (p *plain) waiting(now time.Time, doings []string) string {
	if len(doings) == 0 {
		doings = []string{"at work"}
	}
	return now.Format(time.TimeOnly) + "  " + strings.Join(doings, ", ")
}

// rest returns the line of the explorer's last step if no train step has followed.
func (p *plain) rest() []string {
	if p.explored == nil {
		return nil
	}
	return []string{p.line(*p.explored, p.fields(p.explored))}
}

// RepeatsAccuracy reports whether a metric is a mean reward that equals the accuracy beside it. Displays
// then show the accuracy alone.
func RepeatsAccuracy(m trinity.Metrics, name string) bool {
	accuracy, ok := m[strings.Replace(name, "reward/mean", "accuracy/mean", 1)]
	return ok && strings.Contains(name, "reward/mean") && accuracy == m[name]
}

// describe formats the metrics of the list that the record has.
func describe(m trinity.Metrics, list []consoleMetric) []string {
	var out []string
	for _, s := range list {
		v, ok := m[s.metric]
		if !ok || s.metric == accuracyMetric && RepeatsAccuracy(m, rewardMetric) {
			continue
		}
		text := s.write(v)
		if text == "" {
			continue
		}
		if s.label != "" {
			text = s.label + " " + text
		}
		out = append(out, text)
	}
	return out
}

// Evaluations returns the sorted names of the main metrics of an evaluation. For rollouts these are
// the means, except means of lengths. For held-out data they are the loss without its additional
// terms, and the accuracies.
func Evaluations(m trinity.Metrics) []string {
	var names []string
	for name := range m {
		last := path.Base(name)
		switch {
		case strings.Contains(last, "@"):
			if strings.HasPrefix(last, "mean@") && !strings.Contains(name, "_length/") {
				names = append(names, name)
			}
		case !strings.HasPrefix(name, "eval/") || slices.Contains([]string{"final_loss", "kl_loss", "entropy_loss"}, last):
		case strings.HasSuffix(last, "_loss") || strings.Contains(last, "accuracy"):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func number(v float64) string { return fmt.Sprintf("%.4g", v) }

// positive formats a count, and returns "" for 0.
func positive(v float64) string {
	if v <= 0 {
		return ""
	}
	return number(v)
}

func perSecond(v float64) string { return thousands(v) + " tok/s" }

// thousands shortens large numbers: 1234 is 1.23k.
func thousands(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case a >= 1e3:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}

func seconds(v float64) string { return wait.Text(wait.Seconds(v)) }
