package monitor

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

// shown is a metric that people see, with its label and its format.
type shown struct {
	metric, label string
	write         func(float64) string
}

var explorerShown = []shown{
	{"rollout/reward/mean", "reward", number},
	{"rollout/accuracy/mean", "accuracy", number},
	{"rollout/response_length/mean", "length", number},
	{"rollout/tokens_per_second", "", perSecond},
	{"time/explore_step", "step", seconds},
	{"time/explorer_sync_interval", "waited", seconds},
	{"rollout/failed_run_count", "failed", positive},
	{"rollout/invalid_reward_count", "invalid", positive},
}

var trainerShown = []shown{
	{"actor/final_loss", "loss", number},
	{"actor/kl_loss", "kl", number},
	{"actor/grad_norm", "grad", number},
	{"actor/lr", "lr", number},
	{"perf/throughput", "", perSecond},
	{"time/train_step", "step", seconds},
	{"time/read_experience", "waited", seconds},
}

// plainLine returns a record's line for a log: time, role, step and the main metrics.
func plainLine(r trinity.Record, total int64) string {
	step := fmt.Sprintf("step %d", r.Step)
	list := explorerShown
	if r.Role == "trainer" {
		list = trainerShown
		if total > 0 {
			step += fmt.Sprintf("/%d", total)
		}
	}
	fields := []string{r.Time.Format(time.TimeOnly), r.Role, step}
	fields = append(fields, describe(r.Metrics, list)...)
	for _, e := range Evaluations(r.Metrics) {
		fields = append(fields, e+" "+number(r.Metrics[e]))
	}
	return strings.Join(fields, "  ")
}

// describe formats the metrics of the list that the record has.
func describe(m trinity.Metrics, list []shown) []string {
	var out []string
	for _, s := range list {
		v, ok := m[s.metric]
		if !ok {
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

func seconds(v float64) string {
	switch {
	case v >= 100:
		return duration(time.Duration(v * float64(time.Second)))
	case v >= 10:
		return fmt.Sprintf("%.0fs", v)
	}
	return fmt.Sprintf("%.2gs", v)
}

// duration formats at most two units: 1h02m, 3m04s, 5s.
func duration(d time.Duration) string {
	s := int64(d.Round(time.Second).Seconds())
	switch {
	case s >= 24*60*60:
		return fmt.Sprintf("%dd%02dh", s/(24*60*60), s/(60*60)%24)
	case s >= 60*60:
		return fmt.Sprintf("%dh%02dm", s/(60*60), s/60%60)
	case s >= 60:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%ds", s)
}
