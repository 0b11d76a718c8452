package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// watch looks for signs that a policy gets worse, in the records of a stage. It has a line for each sign, once.
type watch struct {
	start             map[string]float64 // of evaluations, by metric, and of what follows
	told              map[string]bool
	collapsed         int // records in a row in which nearly all groups have one answer
	certain           int // records in a row with next to no entropy
	solved            bool
	onFall, onCertain string // what to do that the run does not do yet
}

const (
	entropy    = report.Entropy
	evalCount  = "/finished_task_count"
	maxReward  = "rollout/reward/max"
	inARow     = 3    // records that show a sign before a line says it
	almostAll  = 0.9  // of the groups
	almostNone = 0.01 // of the entropy at the start
)

// isWatched reports whether a metric is read.
func isWatched(name string) bool {
	return name == entropy || name == explorer.CollapsedShare || name == meanReward || name == maxReward ||
		name == explorer.EvalVersion || strings.HasSuffix(name, evalCount) || strings.Contains(name, "/mean@")
}

func newWatch(cfg *config.Settled) *watch {
	w := &watch{start: map[string]float64{}, told: map[string]bool{},
		onFall:    "Keep the best checkpoint (trainer.keep_best), or lower the learning rate",
		onCertain: "Lower the learning rate, or pay for entropy (algorithm.entropy_loss_fn_args.entropy_coef)"}
	if cfg.Trainer.KeepBest != "" {
		w.onFall = "The run keeps its best checkpoint (trainer.keep_best). Lower the learning rate"
	}
	if parts := cfg.Method.Parts; parts != nil {
		if coef, err := strconv.ParseFloat(fmt.Sprint(parts.EntropyArgs["entropy_coef"]), 64); err == nil && coef > 0 {
			w.onCertain = "Lower the learning rate, or pay more for entropy (algorithm.entropy_loss_fn_args.entropy_coef)"
		}
	}
	return w
}

// recall takes the records of the run so far, whose lines people have read.
func (w *watch) recall(dir string) error {
	t, err := rundir.ReadTable(dir, isWatched)
	for r := range t.Records() {
		w.add(r)
	}
	return err
}

// add takes a record and returns what there is to say.
func (w *watch) add(r trinity.Record) (lines []string) {
	say := func(sign, line string) {
		if !w.told[sign] {
			w.told[sign] = true
			lines = append(lines, fmt.Sprintf("WARNING: %s step %d: %s", r.Role, r.Step, line))
		}
	}
	if _, ok := r.Metrics[explorer.EvalVersion]; ok {
		for _, name := range monitor.Evaluations(r.Metrics) {
			w.evaluation(name, r.Metrics, say)
		}
	}
	if share, ok := r.Metrics[explorer.CollapsedShare]; ok {
		before := w.first(explorer.CollapsedShare, share)
		if w.collapsed++; share < almostAll || before >= 0.5 {
			w.collapsed = 0
		}
		if w.collapsed == inARow {
			say("collapse", fmt.Sprintf("the rollouts of a task have collapsed onto one answer, in %.0f %% of the groups, and in %.0f %% at "+
				"the start: nothing new is tried. %s", 100*share, 100*before, w.onCertain))
		}
		w.solved = r.Metrics[meanReward] >= almostAll*r.Metrics[maxReward] && share < almostAll
	}
	if h, ok := r.Metrics[entropy]; ok {
		before := w.first(entropy, h)
		if w.certain++; !(h < almostNone*before) || before < 0.1 || w.solved {
			w.certain = 0
		}
		if w.certain == inARow {
			say("entropy", fmt.Sprintf("the entropy of the policy is %.2g nats and was %.2g at the start: it samples nearly always the "+
				"same tokens. %s", h, before, w.onCertain))
		}
	}
	return lines
}

// first returns the first value of a metric.
func (w *watch) first(name string, value float64) float64 {
	if _, ok := w.start[name]; !ok {
		w.start[name] = value
	}
	return w.start[name]
}

// evaluation compares an evaluation with the first. The mean p over n rows of numbers from 0 to 1 has at most the
// variance p(1−p)/n, so a fall of three standard errors is no noise. Other numbers are not compared, nor parts of a
// reward, of which less may be better.
func (w *watch) evaluation(name string, m trinity.Metrics, say func(sign, line string)) {
	value, before := m[name], w.first(name, m[name])
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[2] != "accuracy" && parts[2] != "reward" {
		return
	}
	n := m[parts[0]+"/"+parts[1]+evalCount]
	if !(0 <= value && value < before && before <= 1) || n < 1 {
		return
	}
	if before-value > 3*math.Sqrt((value*(1-value)+before*(1-before)+1/n)/n) {
		say("evaluation", fmt.Sprintf("%s is %.3g and was %.3g in the first evaluation, which is more than chance explains with %.0f rows. %s",
			name, value, before, n, w.onFall))
	}
}
