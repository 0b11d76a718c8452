package finetune

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// columns has the names that users of OpenAI's API plot, by the beginnings and the ends of the names of metrics.
var columns = map[string]map[string][]string{
	"actor": {
		"sft_loss": {"train_loss"}, "dpo_loss": {"train_loss"}, "pg_loss": {"train_loss"}, "accuracy_mean": {"train_accuracy"},
		"lr": {"learning_rate"}, "grad_norm": {"grad_norm"},
	},
	"eval/valid": {
		"sft_loss": {"valid_loss", "full_valid_loss"}, "dpo_loss": {"valid_loss", "full_valid_loss"}, "accuracy_mean": {"valid_accuracy"},
		"reward/mean": {"valid_reward_mean"}, "response_length/mean": {"valid_completion_tokens_mean"},
		"invalid_reward_count": {"valid_grader_errors"},
	},
	"rollout": {
		"reward/mean": {"train_reward_mean"}, "response_length/mean": {"train_completion_tokens_mean"},
		"invalid_reward_count": {"train_grader_errors"},
	},
}

// tokensMetric counts the tokens of a step.
const tokensMetric = "perf/total_num_tokens"

// columnsOf returns the names that a metric has in events.
func columnsOf(metric string) []string {
	metric, _, _ = strings.Cut(metric, "@") // of so many samples
	for prefix, ends := range columns {
		if end, ok := strings.CutPrefix(metric, prefix+"/"); ok {
			return ends[end]
		}
	}
	return nil
}

// step is what a run has told of one of its steps.
type step struct {
	number, time, tokens int64
	metrics              map[string]float64
}

// progress returns the steps of a job's run. Lines that cannot be read are left out.
func (j *job) progress() (all []step) {
	table, _ := rundir.ReadTable(filepath.Join(j.runDir(), rundir.Monitor), func(name string) bool {
		return name == tokensMetric || columnsOf(name) != nil
	})
	byStep := map[int64]*step{}
	for r := range table.Records() {
		p := byStep[r.Step]
		if p == nil {
			p = &step{number: r.Step, metrics: map[string]float64{}}
			byStep[r.Step] = p
		}
		p.time = max(p.time, r.Time.Unix())
		for name, value := range r.Metrics {
			for _, column := range columnsOf(name) {
				p.metrics[column] = value
			}
			if name == tokensMetric {
				p.tokens = int64(value)
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(byStep)) {
		if p := byStep[number]; len(p.metrics) > 0 {
			p.metrics["step"] = float64(number)
			all = append(all, *p)
		}
	}
	return all
}

// message tells of a step in words.
func (p *step) message(total int) string {
	text := fmt.Sprintf("Step %d/%d:", p.number, total)
	for _, m := range []struct{ name, words string }{
		{"train_loss", "training loss"}, {"train_reward_mean", "training reward"}, {"valid_loss", "validation loss"},
		{"valid_reward_mean", "validation reward"},
	} {
		if v, ok := p.metrics[m.name]; ok {
			text += fmt.Sprintf(" %s=%.4g,", m.words, v)
		}
	}
	return strings.TrimRight(text, ",:")
}

// isHalf reports whether a step of a reinforcement job has told of its rollouts alone, or of its training alone: two parts
// of a run write that, and an event has both.
func (p *step) isHalf() bool {
	_, learnt := p.metrics["train_loss"]
	_, scored := p.metrics["train_reward_mean"]
	return learnt != scored
}

// events returns the log of a job, the newest line first: what happened to the job, and the metrics of its steps.
func (s *Server) events(owner string, r *http.Request) (any, error) {
	s.mu.Lock()
	j, err := s.job(owner, r.PathValue("id"))
	var all, notes []wire.Event
	total, live := 0, false
	if err == nil {
		notes, total = slices.Clone(j.Notes), j.Steps
		live = !j.Status.Ended() && j.Method.Type == wire.Reinforcement
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, p := range j.progress() {
		if live && p.isHalf() {
			continue
		}
		all = append(all, wire.Event{
			ID: fmt.Sprintf("ftevent-%s-step-%d", j.key(), p.number), Object: "fine_tuning.job.event", CreatedAt: p.time, Level: "info",
			Message: p.message(total), Type: "metrics", Data: p.metrics,
		})
	}
	all = append(all, notes...) // behind the steps: those of the second in which a job ended come before its end
	slices.SortStableFunc(all, func(a, b wire.Event) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	slices.Reverse(all)
	return page(r, all, 20, 1000, func(e wire.Event) string { return e.ID })
}

// checkpoints returns the checkpoints of a job, the newest first.
func (s *Server) checkpoints(owner string, r *http.Request) (any, error) {
	s.mu.Lock()
	j, err := s.job(owner, r.PathValue("id"))
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	metrics := map[int64]map[string]float64{}
	for _, p := range j.progress() {
		metrics[p.number] = p.metrics
	}
	all := []wire.Checkpoint{}
	for _, number := range j.checkpointSteps() {
		all = append(all, wire.Checkpoint{
			ID: fmt.Sprintf("ftckpt-%s-%d", j.key(), number), Object: "fine_tuning.job.checkpoint", CreatedAt: j.saved(number),
			Model: j.modelName() + checkpointMark + strconv.FormatInt(number, 10), Job: j.ID, Step: number, Metrics: metrics[number],
		})
	}
	slices.Reverse(all)
	return page(r, all, 10, 1000, func(c wire.Checkpoint) string { return c.ID })
}

// results keeps the metrics of a job's steps as a file of its owner, which is one file however often a service is killed
// before it says that the job has ended.
func (f *files) results(j *job) (wire.File, error) {
	all := j.progress()
	names := map[string]bool{}
	for _, p := range all {
		for name := range p.metrics {
			names[name] = true
		}
	}
	delete(names, "step")
	header := append([]string{"step"}, slices.Sorted(maps.Keys(names))...)
	return f.add(j.Owner, filePrefix+j.key(), func(w io.Writer) (wire.File, error) {
		table := csv.NewWriter(w)
		if err := table.Write(header); err != nil {
			return wire.File{}, err
		}
		for _, p := range all {
			line := make([]string, len(header))
			for i, name := range header {
				if v, ok := p.metrics[name]; ok {
					line[i] = strconv.FormatFloat(v, 'g', -1, 64)
				}
			}
			if err := table.Write(line); err != nil {
				return wire.File{}, err
			}
		}
		table.Flush()
		return wire.File{Filename: "step_metrics.csv", Purpose: resultPurpose}, table.Error()
	})
}
