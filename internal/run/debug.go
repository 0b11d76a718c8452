package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/refine"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// DebugOptions choose the task that Debug runs.
type DebugOptions struct {
	Stage  string       // "" is the first stage that explores
	Task   int          // row of the stage's first training taskset
	Repeat int          // rollouts of the group; 0: as configured
	Dir    string       // of what Debug writes
	Say    func(string) // receives lines for people
}

// Debug runs the group of one task through workflow, reward, operators and advantage, and trains on
// nothing. It writes the traces that a run would write.
func Debug(ctx context.Context, cfg *config.Config, o DebugOptions) (out *record.Debugged, err error) {
	stage, err := explores(cfg, o)
	if err != nil {
		return nil, err
	}
	stage.Monitor.Trace = config.Trace{Tokens: "all", Every: 1, MaxGb: stage.Monitor.Trace.MaxGb, Spans: true}
	s, end, err := openAside(ctx, stage, o.Dir, o.Say)
	if err != nil {
		return nil, err
	}
	defer func() { err = end(err) }()
	return debugTask(ctx, s, o)
}

// openAside opens a stage that trains on nothing and writes to a directory of its own. end closes it, and joins its
// error to that of the work.
func openAside(ctx context.Context, cfg *config.Settled, dir string, say func(string)) (s *stage, end func(error) error, err error) {
	record.MoveTo(&cfg.Config, cfg.Name, dir)
	copies := &cfg.DataProcessor.ExperiencePipeline
	copies.SaveInput, copies.OutputSavePath = false, ""
	settled, err := settle.Resolve(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := settled.CheckInterpreters(ctx); err != nil {
		return nil, nil, err
	}
	if err := settled.Fetch(ctx, say); err != nil {
		return nil, nil, err
	}
	settled.CriticPath = ""
	opts := Options{Say: say, Quiet: true, Brief: true}
	pipelines := refine.New(settled.Settled, say)
	end = func(err error) error {
		if s != nil {
			err = errors.Join(err, s.close(record.EndOf(err, ctx)))
		}
		return errors.Join(err, pipelines.Close())
	}
	if err := pipelines.MakeTasks(ctx, ctx); err != nil {
		return nil, nil, end(err)
	}
	if err := settled.Fits("", false, true); err != nil {
		return nil, nil, end(err)
	}
	if s, err = open(settled, opts); err != nil {
		return nil, nil, end(err)
	}
	s.pipelines = pipelines
	if err := s.host.Load(ctx); err != nil {
		return nil, nil, end(err)
	}
	return s, end, nil
}

// explores returns the stage of a configuration that Debug runs. It begins with the model of the
// finished stages before it.
func explores(cfg *config.Config, o DebugOptions) (*config.Settled, error) {
	if err := checkStage(cfg, Options{Stage: o.Stage}); err != nil {
		return nil, err
	}
	stages := cfg.Settled()
	from := inherited{model: stages[0].Model.ModelPath}
	for i, c := range stages {
		from.apply(c)
		name := stageName(cfg, i)
		if o.Stage == name || o.Stage == "" && c.Explores {
			if !c.Explores {
				return nil, fmt.Errorf("mode %s has no tasks to debug: modes both, colocate and explore have", c.Mode)
			}
			return c, nil
		}
		done, err := finished(c, false)
		if err != nil {
			return nil, err
		}
		if done != nil {
			from.add(c, done.Model)
		} else {
			o.Say(fmt.Sprintf("stage %s has not finished, so the next one begins with the model from before it: trinity run finishes it", name))
		}
	}
	return nil, fmt.Errorf("%s has no stage with tasks: one of mode both, colocate or explore", cfg.File())
}

// debugTask runs the group of one task.
func debugTask(ctx context.Context, s *stage, o DebugOptions) (*record.Debugged, error) {
	i := slices.IndexFunc(s.Tasksets, func(t feed.Taskset) bool { return !t.Eval })
	if i < 0 || s.Tasksets[i].IsQueue() {
		return nil, errors.New("there is no training taskset of rows: a queue of tasks has none before they arrive")
	}
	set, err := s.data.Taskset(ctx, &s.Tasksets[i])
	if err != nil {
		return nil, err
	}
	if o.Repeat > 0 {
		set.Template.GroupSize = o.Repeat
	}
	if err := s.pipeline(ctx); err != nil {
		return nil, err
	}
	if err := s.openModels(ctx, false, true); err != nil {
		return nil, err
	}
	if err := loadCheckpoint(ctx, s, 0); err != nil {
		return nil, err
	}
	if err := s.log.Open(0, 1, s.ModelPath); err != nil {
		return nil, err
	}
	out := &record.Debugged{Later: s.Objective.InTrainer() != nil, Text: func(tokens []int32) string {
		return s.Text.Tokenizer().Decode(tokens, false)
	}}
	seen := record.NewWitness(s.log, out)
	runner := s.runner()
	runner.Tracer, runner.Host, runner.Progress = seen, seen.Host(runner.Host), nil
	s.process.Tracer, s.process.Ledger = seen, seen.Account
	var group trinity.Group
	if out.Task, group, out.Broken, err = explorer.Try(ctx, runner, s.log.Explorer(), set, o.Task); err != nil {
		return nil, err
	}
	groups := slices.DeleteFunc([]trinity.Group{slices.Clone(group)}, func(g trinity.Group) bool { return len(g) == 0 })
	left, m, err := s.process.Process(ctx, 1, groups)
	if err != nil {
		return nil, err
	}
	out.Metrics, out.Answers = m, seen.Answers(group, slices.Concat(left...))
	seen.Trained(trinity.Trained{Step: 1, Experiences: out.Answers})
	err = s.log.Explorer().Log(ctx, trinity.Record{Step: 1, Metrics: m})
	return seen.Seen(), err
}
