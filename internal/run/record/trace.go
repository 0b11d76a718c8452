package record

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/monitor"
)

// Tracer returns what tells the trace of the stage, nil if it keeps nothing.
func (l *Log) Tracer() trinity.Tracer {
	if !l.cfg.Monitor.Trace.IsKept() {
		return nil
	}
	return l
}

// named returns a role with the explorer's own name. Explorers that have names of their own are roles of their own.
func (l *Log) named(role string) string {
	if role == trinity.RoleTrainer {
		return role
	}
	return config.ExplorerRole(role, l.cfg.Explorer.Name)
}

// Span implements [trinity.Tracer].
func (l *Log) Span(s trinity.Span) {
	if l.joined != nil && l.cfg.Monitor.Trace.Spans {
		l.tell(toTrainer, l.joined, func() { l.joined.Span(s) })
	}
	s.Role = l.named(s.Role)
	if l.trace != nil {
		l.tell(toFiles, l.trace, func() { l.trace.Span(s) })
	}
	l.witness(func(w monitor.Witness) { w.Span(s) })
}

// Trained implements [trinity.Tracer].
func (l *Log) Trained(s trinity.Trained) {
	if l.trace != nil {
		l.tell(toFiles, l.trace, func() { l.trace.Trained(s) })
	}
}

// Failed implements [trinity.Tracer].
func (l *Log) Failed(f trinity.FailedRollout) {
	f.Role = l.named(f.Role)
	if l.trace != nil {
		l.tell(toFiles, l.trace, func() { l.trace.Failed(f) })
	}
	l.witness(func(w monitor.Witness) { w.Failed(f) })
}

// witness tells the monitors that show what happens within a step.
func (l *Log) witness(tell func(monitor.Witness)) {
	if !l.began {
		return
	}
	for i, m := range l.monitors {
		if w, ok := m.(monitor.Witness); ok {
			l.tell(i, w, func() { tell(w) })
		}
	}
}

// Those whom a log tells, beside monitors, which have their places in the list of them.
const (
	toFiles   = -1
	toTrainer = -2
)

// tell calls one of those who watch the run, in the run's goroutine. A run must not fail by who watches
// it: one that has panicked is called no more.
func (l *Log) tell(number int, who any, call func()) {
	if _, broken := l.broken.Load(number); broken {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			if _, said := l.broken.LoadOrStore(number, true); !said {
				l.Say(fmt.Sprintf("the run goes on, and no longer tells %T what happens: panic: %v", who, p))
			}
		}
	}()
	call()
}

// openTrace returns the writer of the stage's traces; nil if it keeps none, or if there is no place
// for them.
func (l *Log) openTrace(fromStep int64) *trace.Writer {
	if !l.cfg.Monitor.Trace.IsKept() {
		return nil
	}
	w, err := l.NewTrace(fromStep)
	if err != nil {
		l.Say(fmt.Sprintf("the run goes on without its trace: %v", err))
		return nil
	}
	return w
}

// NewTrace begins files of a process in the directory of the stage's traces.
func (l *Log) NewTrace(fromStep int64) (*trace.Writer, error) {
	o := &l.cfg.Monitor.Trace
	return trace.New(trace.Options{
		Dir: filepath.Join(l.cfg.CheckpointJobDir, rundir.Traces), FromStep: fromStep, Spans: o.Spans, Every: int64(o.Every),
		MaxBytes: int64(o.MaxGb * 1e9), Text: l.tokens.Text, Say: l.Say,
	})
}

// Tracing returns what the trainer tells.
func (l *Log) Tracing() trainer.Tracing {
	o := &l.cfg.Monitor.Trace
	t := trainer.Tracing{Tracer: l.Tracer(), Groups: o.GroupsPerStep, Every: int64(o.Every), Seed: uint64(l.cfg.Seed)}
	switch o.Tokens {
	case "all":
		t.Groups = -1
	case "off":
		t.Groups = 0
	}
	return t
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

// Answers returns the experiences that a pipeline got, as it left them, with who dropped them, and
// then those that it made.
func (w *Witness) Answers(came, left []*trinity.Experience) (all []trinity.TrainedExperience) {
	for _, e := range came {
		one := trinity.TrainedExperience{Experience: *e}
		if i := slices.IndexFunc(left, func(l *trinity.Experience) bool { return l.ID == e.ID }); i >= 0 {
			one.Experience = *left[i]
			left = slices.Delete(slices.Clone(left), i, i+1)
		}
		for who, ids := range w.dropped {
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

// Witness keeps what a tracer is told, the calls of models, and whom the pipeline drops.
type Witness struct {
	trinity.Tracer
	dropped map[string]ledger.IDs

	mu  sync.Mutex
	out *Debugged
}

// NewWitness returns a witness that writes to out what it sees, and passes spans and failures on to t.
func NewWitness(t trinity.Tracer, out *Debugged) *Witness { return &Witness{Tracer: t, out: out} }

// Host returns a host whose models tell the witness of their calls.
func (w *Witness) Host(h explorer.Host) explorer.Host { return watchedHost{h, w} }

// Account notes whom a step of the pipeline drops.
func (w *Witness) Account(step ledger.Step) error {
	w.dropped = step.Dropped
	return nil
}

// Seen returns what the witness has seen so far: a workflow that missed its deadline may still call.
func (w *Witness) Seen() *Debugged {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := *w.out
	return &seen
}

// Span implements [trinity.Tracer].
func (w *Witness) Span(s trinity.Span) {
	w.Tracer.Span(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Spans = append(w.out.Spans, s)
}

// Failed implements [trinity.Tracer].
func (w *Witness) Failed(f trinity.FailedRollout) {
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
	seen *Witness
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
	seen  *Witness
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
