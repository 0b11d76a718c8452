package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/selector"
)

// Mix opens the training tasksets.
func (s *Reader) Mix(ctx context.Context) (*explorer.Mix, error) {
	var sets []*explorer.Taskset
	rows := map[string]int{}
	for i := range s.Tasksets {
		t := &s.Tasksets[i]
		if t.Eval {
			continue
		}
		ts, err := s.Taskset(ctx, t)
		if err != nil {
			return nil, err
		}
		ts.Weight = config.Value(0, t.Weight)
		if sets = append(sets, ts); !t.IsQueue() {
			rows[t.Key] = ts.Data.Len()
		}
	}
	if err := CheckPacks(s.Settled, s.Tasksets, rows); err != nil {
		return nil, err
	}
	return explorer.NewMix(sets...)
}

// CheckPacks returns an error if the training tasksets together have fewer rows than a pack. rows is
// what this explorer reads, by the key of the taskset; a taskset that is not there yet has no entry.
func CheckPacks(s *config.Settled, tasksets []Taskset, rows map[string]int) error {
	all, size, key := 0, 0, ""
	for i := range tasksets {
		t := &tasksets[i]
		if t.Eval {
			continue
		}
		n, ok := rows[t.Key]
		if !ok {
			return nil
		}
		all, size, key = all+n, s.Cod.PackSize(t.TasksetEntry), cmp.Or(key, t.Key)
	}
	if all >= size {
		return nil
	}
	return s.At(key+".path", fmt.Sprintf("there are %d rows to train on, and a pack has %d tasks", all, size),
		"add rows, or lower cod.task_pack_size")
}

// Taskset opens a taskset of the configuration.
func (s *Reader) Taskset(ctx context.Context, t *Taskset) (*explorer.Taskset, error) {
	out := &explorer.Taskset{Template: t.Template, Workflow: t.plugins.workflow, Reward: t.plugins.reward,
		Packing: explorer.Packing{Size: s.Cod.PackSize(t.TasksetEntry), Fill: trinity.RequirementsOf(t.plugins.workflow).FillPacks}}
	if t.own != nil {
		out.Own = func(task *trinity.Task) (trinity.Workflow, trinity.RewardFunc, error) {
			p, err := t.pluginsOf(task)
			return p.workflow, p.reward, err
		}
	}
	read := s.readDataset
	if t.IsQueue() {
		read = s.readQueue
	}
	err := read(ctx, t, out)
	if named := (config.Error{}); err != nil && !errors.As(err, &named) { // that names the key
		err = fmt.Errorf("taskset %s: %w", t.Name, err)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readDataset gives a taskset the rows of a dataset.
func (s *Reader) readDataset(ctx context.Context, t *Taskset, out *explorer.Taskset) error {
	data, err := s.openDataset(ctx, t.Path, tasksOf(&t.Taskset), t.EnableProgressBar)
	if err != nil {
		return err
	}
	out.Data = data
	if images := t.images(data); images != nil {
		out.Images = images.Of
	}
	if !t.Eval {
		out.Explorer, out.Data = OwnName(s.Settled), ShareOf(&s.Explorer, data)
		if out.Selector, err = s.openSelector(&t.DataSelector, out.Data); err != nil {
			return err
		}
	}
	if err := t.Check(data); err != nil {
		return err
	}
	return s.checkPrompts(ctx, t, data)
}

// prober is a workflow that can try, without a model, what a task needs. It returns what the policy would read first,
// without messages if it does not know that.
type prober interface {
	Probe(ctx context.Context, t *trinity.Task) (trinity.Observation, error)
}

// probe tries what the task of a row needs.
func (t *Taskset) probe(ctx context.Context, data rowsOfTasks, i int) (first trinity.Observation, err error) {
	if i >= data.Len() {
		return first, nil
	}
	if first, err = t.probeRow(ctx, data, i); err != nil {
		err = fmt.Errorf("%s: %w", data.Where(i), err)
	}
	return first, err
}

func (t *Taskset) probeRow(ctx context.Context, data selector.Dataset, i int) (first trinity.Observation, err error) {
	task := t.Template
	task.ID, task.Index = t.Name, i
	if task.Row, err = data.Row(i); err != nil {
		return first, err
	}
	plugins, err := t.pluginsOf(&task)
	if err != nil {
		return first, err
	}
	if p, ok := plugins.workflow.(prober); ok {
		return p.Probe(ctx, &task)
	}
	return first, nil
}

// ShareOf returns an explorer's share of the rows.
func ShareOf(e *config.Explorer, data selector.Dataset) selector.Dataset {
	if k, n := e.Part(); n > 1 {
		return explorer.ShareOf(data, k, n)
	}
	return data
}

// OwnName returns the explorer's name, which its tasks bear. It returns "" for an only explorer.
func OwnName(s *config.Settled) string {
	if name := s.Explorer.Name; name != config.OnlyExplorer {
		return name
	}
	return ""
}

// tasksOf returns where the rows of a taskset are in its path.
func tasksOf(ts *config.Taskset) dataset.Options {
	o := rowsOf(ts.Path, ts.Split, ts.SubsetName, ts.Name, ts.MaxRetryTimes, ts.MaxRetryInterval)
	o.TaskDir = ts.StorageType == "task_dir"
	return o
}

// template returns a task with the fields that all tasks of a taskset have in common. Load has
// filled in the defaults of the taskset.
func template(s *config.Settled, ts config.TasksetEntry) trinity.Task {
	workflow, workflowArgs := s.Plugin(registry.Workflows.Catalog, ts.DefaultWorkflowType, s.Cod.ArgsOfWorkflow(ts))
	reward, args := s.Plugin(registry.Rewards.Catalog, ts.DefaultRewardFnType, ts.RewardFnArgs)
	return trinity.Task{
		Taskset: ts.Name, Eval: ts.Eval, GroupSize: ts.RepeatTimes, Teacher: ts.Teacher,
		Workflow: workflow, WorkflowArgs: workflowArgs,
		Reward: reward, RewardArgs: args,
		Format: ts.Format.TaskFormat, Sampling: Sampling(s, &ts.RolloutArgs, !ts.Eval),
	}
}

// Sampling returns the sampling parameters. A taskset's rollout arguments come before the settings
// of the rollout model, and these before the model's. learns says that the run learns from the tokens.
func Sampling(s *config.Settled, a *config.RolloutArgs, learns bool) trinity.SamplingParams {
	r, m := &s.Explorer.RolloutModel, &s.Model
	return trinity.SamplingParams{
		Temperature:       float32(config.Value(m.Temperature, r.Temperature, a.Temperature)),
		TopP:              float32(config.Value(m.TopP, r.TopP, a.TopP)),
		TopK:              config.Value(m.TopK, r.TopK, a.TopK),
		RepetitionPenalty: float32(config.Value(m.RepetitionPenalty, r.RepetitionPenalty)),
		MaxTokens:         config.Value(config.Value(0, m.MaxResponseTokens), r.MaxResponseTokens, a.MaxTokens),
		MinTokens:         config.Value(m.MinResponseTokens, r.MinResponseTokens),
		IgnoreEOS:         r.IgnoreEos,
		Adapter:           m.Adapter(a.Adapter),
		Untrained:         !learns || s.Method.Imitates || s.Method.Recomputes && !scoresWhole(s.Engines.Sample),
	}
}

// scoresWhole reports whether a sampler scores tokens by the whole distribution, also those drawn from a
// part of it. A correction that divides by such log-probabilities misses the truncation.
func scoresWhole(sampler string) bool {
	if !registry.Samplers.Has(sampler) {
		return false
	}
	_, whole := registry.Samplers.Default(sampler).(interface{ ScoresWhole() })
	return whole
}

// openSelector builds a data selector and starts it on the data.
func (s *Reader) openSelector(c *config.DataSelector, data selector.Dataset) (selector.Selector, error) {
	name, args := s.Plugin(selector.Selectors.Catalog, c.SelectorType, c.Args())
	sel, err := selector.Selectors.Build(name, args)
	if err == nil && s.Give != nil {
		err = s.Give(sel)
	}
	if err != nil {
		return nil, err
	}
	return sel, sel.Start(data)
}

// EvalTasksets opens all evaluation tasksets.
func (s *Reader) EvalTasksets(ctx context.Context) ([]*explorer.Taskset, error) {
	var out []*explorer.Taskset
	for i := range s.Tasksets {
		if t := &s.Tasksets[i]; t.Eval {
			ts, err := s.Taskset(ctx, t)
			if err != nil {
				return nil, err
			}
			out = append(out, ts)
		}
	}
	return out, nil
}
