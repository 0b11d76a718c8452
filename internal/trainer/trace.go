package trainer

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Tracing says what the trainer tells a tracer. The zero value tells nothing.
type Tracing struct {
	Tracer trinity.Tracer
	Groups int    // of a step, whose tokens are told; negative: all
	Every  int64  // steps, the first included; 0: no step
	Seed   uint64 // of the choice of groups
}

// trace tells the tracer about one step.
type trace struct {
	*Tracing
	step   int64
	model  string                                             // that is trained: "policy", "critic"
	told   map[trinity.ExperienceID]bool                      // the experiences that are told
	before []*trinity.Experience                              // of them, those that the step took
	seen   map[*trinity.Experience]*trinity.TrainedExperience // those that the losses saw
	order  []*trinity.TrainedExperience
}

// tell calls the tracer, if there is one.
func (t *Tracing) tell(what func(trinity.Tracer)) {
	if t.Tracer != nil {
		what(t.Tracer)
	}
}

// span tells that something has ended that began at a time.
func (t *Tracing) span(step int64, kind trinity.SpanKind, name, subject string, begin time.Time) {
	t.tell(func(to trinity.Tracer) {
		to.Span(trinity.Span{Role: trinity.RoleTrainer, Kind: kind, Name: name, For: subject, Step: step, Begin: begin, End: time.Now()})
	})
}

// begin chooses the experiences of a step that are told.
func (t *Tracing) begin(step int64, groups []trinity.Group) *trace {
	tr := &trace{
		Tracing: t, step: step, model: "policy", told: map[trinity.ExperienceID]bool{},
		seen: map[*trinity.Experience]*trinity.TrainedExperience{},
	}
	if t.Tracer == nil || t.Every <= 0 || (step-1)%t.Every != 0 || t.Groups == 0 {
		return tr
	}
	for _, i := range t.choose(step, groups) {
		for _, e := range groups[i] {
			tr.told[e.ID] = true
			tr.before = append(tr.before, e)
		}
	}
	return tr
}

// choose returns the places of the groups that are told: those with the best, the worst, the longest
// and an invalid experience, and others that the seed draws.
func (t *Tracing) choose(step int64, groups []trinity.Group) []int {
	if t.Groups < 0 || t.Groups >= len(groups) {
		all := make([]int, len(groups))
		for i := range all {
			all[i] = i
		}
		return all
	}
	best, worst, longest, invalid := extremes(groups)
	var chosen []int
	rng := rand.New(rand.NewPCG(trinity.Seed(t.Seed, step, "trace", 0), 0))
	for _, i := range append([]int{best, worst, longest, invalid}, rng.Perm(len(groups))...) {
		if i >= 0 && len(chosen) < t.Groups && !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// extremes returns the places of the groups with the highest and the lowest reward, with the longest
// experience, and the first with an invalid reward; −1 if there is none.
func extremes(groups []trinity.Group) (best, worst, longest, invalid int) {
	best, worst, longest, invalid = -1, -1, -1, -1
	high, low, most := math.Inf(-1), math.Inf(1), 0
	for i, g := range groups {
		for _, e := range g {
			if n := len(e.Tokens); n > most {
				most, longest = n, i
			}
			switch v := e.Reward.Value; {
			case !e.Reward.Valid && invalid < 0:
				invalid = i
			case !e.Reward.Valid:
			case v > high && v < low:
				high, low, best, worst = v, v, i, i
			case v > high:
				high, best = v, i
			case v < low:
				low, worst = v, i
			}
		}
	}
	return best, worst, longest, invalid
}

// loss returns the loss of the optimizer step with this place in the train step, which the trace
// listens to.
func (t *trace) loss(inner trinity.Loss, update int) *observedLoss {
	return &observedLoss{of: inner, trace: t, update: update, begun: time.Now()}
}

// observedLoss is a loss that a trace listens to. Engines call no optional method of a loss.
type observedLoss struct {
	of     trinity.Loss
	trace  *trace
	update int
	begun  time.Time // the forward pass
	asked  time.Time // when the engine called the loss, between the passes
}

// end tells how long the passes over a micro-batch took.
func (h *observedLoss) end() {
	h.trace.tell(func(to trinity.Tracer) {
		s := trinity.Span{
			Role: trinity.RoleTrainer, Kind: trinity.SpanForward, Name: h.trace.model, Step: h.trace.step, Begin: h.begun, End: h.asked,
		}
		to.Span(s)
		s.Kind, s.Begin, s.End = trinity.SpanBackward, s.End, time.Now()
		to.Span(s)
	})
}

// Streams implements [trinity.Loss].
func (h *observedLoss) Streams() trinity.Streams { return h.of.Streams() }

// Loss implements [trinity.Loss].
func (h *observedLoss) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	h.asked = time.Now()
	grads, metrics, err := h.of.Loss(b, now)
	if err == nil && len(grads) == len(b.Experiences) {
		for i, e := range b.Experiences {
			h.trace.hear(e, trinity.Update{Index: h.update, Now: now[i], Grads: grads[i]})
		}
	}
	return grads, metrics, err
}

// hear keeps what an optimizer step saw of an experience. The engine may use the slices again.
func (t *trace) hear(e *trinity.Experience, u trinity.Update) {
	if !t.told[e.ID] {
		return
	}
	of := t.seen[e]
	if of == nil {
		of = &trinity.TrainedExperience{Experience: copyOf(e)}
		t.seen[e] = of
		t.order = append(t.order, of)
	}
	for _, s := range []*[]float32{
		&u.Now.Logprob, &u.Now.Entropy, &u.Now.Value, &u.Now.Discriminator, &u.Now.Divergence,
		&u.Grads.Logprob, &u.Grads.Entropy, &u.Grads.Value, &u.Grads.Divergence,
	} {
		*s = slices.Clone(*s)
	}
	of.Updates = append(of.Updates, u)
}

// copyOf returns a copy of an experience that shares no per-token slice with it: a replay buffer may
// give the experience to a later step, which writes its own.
func copyOf(e *trinity.Experience) trinity.Experience {
	c := *e
	for _, s := range []*[]float32{
		&c.Logprobs, &c.Advantages, &c.Returns, &c.RefLogprobs, &c.TeacherLogprobs, &c.OldLogprobs, &c.PolicyWeights, &c.Values, &c.Entropies,
		&c.Discriminators,
	} {
		*s = slices.Clone(*s)
	}
	return c
}

// end tells the tracer what became of the experiences.
func (t *trace) end(f *provenance) {
	if len(t.told) == 0 {
		return
	}
	out := trinity.Trained{Step: t.step}
	kept := map[trinity.ExperienceID]bool{}
	for _, e := range t.order {
		kept[e.ID] = true
		out.Experiences = append(out.Experiences, *e)
	}
	for _, e := range t.before {
		if !kept[e.ID] {
			kept[e.ID] = true
			out.Experiences = append(out.Experiences, trinity.TrainedExperience{Experience: copyOf(e), Dropped: f.whoDropped(e.ID)})
		}
	}
	t.tell(func(to trinity.Tracer) { to.Trained(out) })
}
