package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/experience/ledger"
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

// Debugged is what became of one group of rollouts.
type Debugged struct {
	Task    *trinity.Task
	Calls   []ModelCall
	Spans   []trinity.Span
	Failed  []trinity.FailedRollout
	Broken  []error                     // why rollouts are not in the group, in the words of the log
	Answers []trinity.TrainedExperience // that the pipeline got or made; no optimizer step learned from them
	Metrics trinity.Metrics             // of the pipeline
	Later   bool                        // the trainer computes the advantage
	Text    func([]int32) string        // of tokens, with the special ones
}

// ModelCall is a call of a model by a rollout.
type ModelCall struct {
	ID         trinity.ExperienceID // of the rollout
	Model      string               // "" is the policy
	Begin, End time.Time
	Prompt     []int32
	Out        []trinity.Completion
	Err        error
}

// Debug runs the group of one task through workflow, reward, operators and advantage, and trains on
// nothing. It writes the traces that a run would write.
func Debug(ctx context.Context, cfg *config.Config, o DebugOptions) (out *Debugged, err error) {
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
		name := ""
		if len(cfg.Stages) > 0 {
			name = cfg.Stages[i].StageName
		}
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
func debugTask(ctx context.Context, s *stage, o DebugOptions) (*Debugged, error) {
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
	out := &Debugged{Later: s.Objective.InTrainer() != nil, Text: func(tokens []int32) string {
		return s.Text.Tokenizer().Decode(tokens, false)
	}}
	seen := &witness{Tracer: s.log, out: out}
	runner := s.runner()
	runner.Tracer, runner.Host, runner.Progress = seen, watchedHost{runner.Host, seen}, nil
	s.process.Tracer = seen
	var dropped map[string]ledger.IDs
	s.process.Ledger = func(step ledger.Step) error {
		dropped = step.Dropped
		return nil
	}
	var group trinity.Group
	if out.Task, group, out.Broken, err = explorer.Try(ctx, runner, s.log.Explorer(), set, o.Task); err != nil {
		return nil, err
	}
	groups := slices.DeleteFunc([]trinity.Group{slices.Clone(group)}, func(g trinity.Group) bool { return len(g) == 0 })
	left, m, err := s.process.Process(ctx, 1, groups)
	if err != nil {
		return nil, err
	}
	out.Metrics, out.Answers = m, answersOf(group, slices.Concat(left...), dropped)
	seen.Trained(trinity.Trained{Step: 1, Experiences: out.Answers})
	err = s.log.Explorer().Log(ctx, trinity.Record{Step: 1, Metrics: m})
	seen.mu.Lock() // a workflow that missed its deadline may still call
	defer seen.mu.Unlock()
	told := *out
	return &told, err
}

// answersOf returns the experiences that a pipeline got, as it left them, with who dropped them, and
// then those that it made.
func answersOf(came, left []*trinity.Experience, dropped map[string]ledger.IDs) (all []trinity.TrainedExperience) {
	for _, e := range came {
		one := trinity.TrainedExperience{Experience: *e}
		if i := slices.IndexFunc(left, func(l *trinity.Experience) bool { return l.ID == e.ID }); i >= 0 {
			one.Experience = *left[i]
			left = slices.Delete(slices.Clone(left), i, i+1)
		}
		for who, ids := range dropped {
			if slices.Contains(ids, e.ID) {
				one.Dropped = who
			}
		}
		all = append(all, one)
	}
	for _, e := range left {
		all = append(all, trinity.TrainedExperience{Experience: *e})
	}
	return all
}

// witness keeps what a tracer is told, and the calls of models.
type witness struct {
	trinity.Tracer
	mu  sync.Mutex
	out *Debugged
}

// Span implements [trinity.Tracer].
func (w *witness) Span(s trinity.Span) {
	w.Tracer.Span(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Spans = append(w.out.Spans, s)
}

// Failed implements [trinity.Tracer].
func (w *witness) Failed(f trinity.FailedRollout) {
	if f.Kind == trinity.DroppedAnswer { // the trace has it already: debug keeps all answers
		return
	}
	w.Tracer.Failed(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Failed = append(w.out.Failed, f)
}

// watchedHost is a Host whose models tell a witness of their calls.
type watchedHost struct {
	explorer.Host
	seen *witness
}

// Model implements explorer.Host.
func (h watchedHost) Model(task *trinity.Task, name string) (*trinity.Model, error) {
	m, err := h.Host.Model(task, name)
	if err == nil {
		m.Sampler = watched{m.Sampler, m, name, h.seen}
	}
	return m, err
}

// Asker implements explorer.Host.
func (h watchedHost) Asker(task *trinity.Task, name string, own func(*trinity.Model) *trinity.Model) (trinity.Asker, error) {
	return h.Host.Asker(task, name, func(m *trinity.Model) *trinity.Model {
		m.Sampler = watched{m.Sampler, m, name, h.seen}
		return own(m)
	})
}

// watched is the sampler of a model that tells a witness of its calls.
type watched struct {
	trinity.Sampler
	model *trinity.Model
	name  string
	seen  *witness
}

// Sample implements [trinity.Sampler].
func (w watched) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	begin := time.Now()
	out, err := w.Sampler.Sample(ctx, prompt, p)
	call := ModelCall{ID: w.model.ID, Model: w.name, Begin: begin, End: time.Now(), Prompt: prompt.Tokens, Out: out, Err: err}
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	w.seen.out.Calls = append(w.seen.out.Calls, call)
	return out, err
}
