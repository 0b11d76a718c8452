package explorer

import (
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// tell tells a tracer, which may be nil, that something of a step has ended that began at a time.
func tell(tracer trinity.Tracer, role string, step int64, kind trinity.SpanKind, name, subject string, begin time.Time) {
	if tracer != nil {
		tracer.Span(trinity.Span{Role: role, Kind: kind, Name: name, For: subject, Step: step, Begin: begin, End: time.Now()})
	}
}

// traced tells a tracer about one attempt at a rollout, and keeps its last call of a model.
type traced struct {
	to   trinity.Tracer // may be nil
	id   trinity.ExperienceID
	role string
	task *trinity.Task

	mu   sync.Mutex
	last *called // nil before the first
}

// called is a call of a model.
type called struct{ prompt, sampled []int32 }

// span tells that something of the rollout has ended that began at a time.
func (t *traced) span(kind trinity.SpanKind, what string, version int64, begin time.Time) {
	if t.to != nil {
		t.to.Span(trinity.Span{
			Role: t.role, Kind: kind, Name: t.id.Task, For: what, Step: t.id.Step, Version: version, Experience: t.id, Begin: begin, End: time.Now(),
		})
	}
}

// call notes that a model is called.
func (t *traced) call(prompt trinity.Prompt, p *trinity.SamplingParams) {
	if t.to == nil {
		return
	}
	call := &called{prompt: prompt.Tokens}
	t.mu.Lock()
	t.last = call
	t.mu.Unlock()
	p.AddOnSampled(func(i int, s trinity.Sampled) {
		if i == 0 {
			t.mu.Lock()
			call.sampled = append(call.sampled, s.Token)
			t.mu.Unlock()
		}
	})
}

// failed tells what is known of a rollout that failed.
func (t *traced) failed(err error, retries int) {
	if t.to == nil {
		return
	}
	f := trinity.FailedRollout{ID: t.id, Role: t.role, Kind: kindOf(err), Reason: err.Error(), Retries: retries, Time: time.Now()}
	f.Question, f.Truth = experience.Question(t.task), experience.Truth(t.task)
	t.mu.Lock()
	if t.last != nil { // an abandoned workflow may still call
		f.Prompt, f.Sampled = slices.Clone(t.last.prompt), slices.Clone(t.last.sampled)
	}
	t.mu.Unlock()
	t.to.Failed(f)
}
