package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/algorithm/advantage"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/registry"

	"github.com/trinity-go/trinity/trinitytest"
)

// graded is an engine that exposes the gradient of an optimizer step instead of applying it.
type graded struct {
	*Engine
	batches int       // micro-batches of the step
	want    []float32 // the gradient that others are compared with; nil takes the next one for it
	off     float64   // ‖gradient − want‖ / ‖want‖ of the last step
}

// newGraded returns an engine on two cores, with a teacher if its options are given.
func newGraded(t *testing.T, opts Options, teacher *Options) *graded {
	t.Helper()
	opts.Pool = kernel.NewPool(2)
	t.Cleanup(opts.Pool.Close)
	opts.Reference, opts.Optimizer = !opts.Value && !opts.Score, engine.OptimizerSpec{Type: engine.SGD}
	g := &graded{Engine: open(t, opts)}
	if teacher != nil {
		frozen := *teacher
		frozen.Pool, frozen.ForwardOnly = opts.Pool, true
		if err := g.SetTeachers(map[string]engine.Trainer{"": open(t, frozen)}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *graded) ForwardBackward(ctx context.Context, b *trinity.Batch, l trinity.Loss) (trinity.Metrics, error) {
	g.batches++
	return g.Engine.ForwardBackward(ctx, b, l)
}

func (g *graded) OptimStep(context.Context, trinity.OptimParams) (trinity.Metrics, error) {
	if g.want == nil {
		g.want = slices.Clone(g.gradient)
	}
	g.off = difference(g.gradient, g.want)
	clearFlat(g.pool, g.gradient)
	g.accumulating = false
	return nil, nil
}

// on computes with a pool, the teachers too.
func (g *graded) on(pool *kernel.Pool) {
	g.pool = pool
	for _, t := range g.passes.head.compare.teachers {
		t.pool = pool
	}
}

// moveOn trains the policy on the answers a little. So it differs from the policy that sampled
// them, which stays the reference.
func (g *graded) moveOn(t *testing.T, xs []*trinity.Experience, lr float64) {
	t.Helper()
	for range 3 {
		if _, err := g.Engine.ForwardBackward(t.Context(), whole(xs), nll{}); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Engine.OptimStep(t.Context(), trinity.OptimParams{LR: lr, ClipNorm: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	everything = 1 << 20 // more tokens than any step here has
	many       = 3       // micro-batches
)

// silent is a Checkpointer and a Recorder that keeps nothing.
type silent struct{}

func (silent) Save(context.Context, trainer.Progress, bool) error { return nil }
func (silent) Log(context.Context, int64, trinity.Metrics) error  { return nil }
func (silent) Say(string)                                         {}
func (silent) Progress(string, int, int)                          {}
func (silent) Took(int64, []trinity.ExperienceID, map[string][]trinity.ExperienceID) error {
	return nil
}

// oneStep trains one step on a batch, in micro-batches of at most the given number of tokens.
func oneStep(t *testing.T, o trainer.Options, tokens int, xs []*trinity.Experience) {
	t.Helper()
	batch := make(trinity.Group, len(xs))
	for i, x := range xs {
		own := *x // the trainer writes on it
		batch[i] = &own
	}
	q := buffer.NewQueue(len(batch), 0, nil)
	if err := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{batch}}); err != nil {
		t.Fatal(err)
	}
	o.Source, o.TotalSteps, o.BatchSize, o.MicroTokens, o.SyncInterval = q, 1, len(batch), tokens, 1
	o.Policy.Schedule = trainer.Schedule{LR: 1, Type: "constant"}
	o.Checkpointer, o.Recorder = silent{}, silent{}
	if err := trainer.New(o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
}

// way is one to compute a step.
type way struct {
	name    string
	tokens  int // of a micro-batch
	xs      []*trinity.Experience
	alone   bool // prompts in common are computed for every sequence
	batches int  // micro-batches that it takes, or many
}

// someWays differ from a whole step in everything at least once.
func someWays(xs []*trinity.Experience) []way {
	all := tokensOf(xs)
	return []way{
		{"two micro-batches", all * 3 / 4, xs, false, 2},
		{"prompts computed for every sequence", everything, xs, true, 1},
		{"shuffled, beside sequences with nothing to train, many micro-batches", all / 4, withIdle(shuffled(xs, 1)), false, many},
	}
}

// allWays are some in -short.
func allWays(xs []*trinity.Experience) []way {
	if testing.Short() {
		return someWays(xs)
	}
	return append(someWays(xs), []way{
		{"one sequence or pair at a time", 1, xs, false, many},
		{"begun in the middle", everything, slices.Concat(xs[6:], xs[:6]), false, 1},
		{"shuffled", everything, shuffled(xs, 2), false, 1},
		{"shuffled, many micro-batches", tokensOf(xs) / 4, shuffled(xs, 3), false, many},
		{"beside sequences with nothing to train", everything, withIdle(xs), false, 1},
	}...)
}

// invariant holds the gradients of a trainer's step to be the same, within a bound relative to
// their norm, in whichever way it is computed: however it is cut and packed, in any order, beside
// others with nothing to train; and to have the same bits on any number of cores.
func invariant(t *testing.T, o trainer.Options, xs []*trinity.Experience, ways []way, bound float64, engines ...*graded) {
	t.Helper()
	for _, g := range engines {
		g.want, g.batches = nil, 0
	}
	oneStep(t, o, everything, xs)
	for _, g := range engines {
		if g.batches != 1 || norm(g.want) == 0 {
			t.Fatalf("%d micro-batches gave a gradient of norm² %v, want one and a gradient", g.batches, norm(g.want))
		}
	}
	for _, w := range ways {
		for _, g := range engines {
			g.batches, g.passes.shareNothing = 0, w.alone
		}
		oneStep(t, o, w.tokens, w.xs)
		for _, g := range engines {
			if !(g.off <= bound) {
				t.Errorf("%s: the gradient is %.2g relative off", w.name, g.off)
			}
			if min(g.batches, many) != w.batches {
				t.Errorf("%s: %d micro-batches, want %d (%d for that or more)", w.name, g.batches, w.batches, many)
			}
			g.passes.shareNothing = false
		}
	}
	one := kernel.NewPool(1)
	defer one.Close()
	for _, g := range engines {
		defer g.on(g.pool)
		g.on(one)
	}
	oneStep(t, o, everything, xs)
	for _, g := range engines {
		if g.off != 0 {
			t.Errorf("one core: the gradient is %.2g relative off, want the same bits", g.off)
		}
	}
}

// tokensOf counts the tokens of consecutive experiences, a prompt of one task once.
func tokensOf(xs []*trinity.Experience) int {
	n := 0
	for i, x := range xs {
		n += len(x.Tokens)
		if i > 0 && x.ID.Task == xs[i-1].ID.Task {
			n -= x.PromptLen
		}
	}
	return n
}

// shuffled keeps experiences 2i and 2i+1 together.
func shuffled(xs []*trinity.Experience, seed uint64) []*trinity.Experience {
	pairs := slices.Collect(slices.Chunk(xs, 2))
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return slices.Concat(pairs...)
}

// withIdle puts a pair with nothing to train behind every other pair.
func withIdle(xs []*trinity.Experience) []*trinity.Experience {
	var out []*trinity.Experience
	for i, x := range xs {
		if out = append(out, x); i%4 == 1 {
			for _, y := range xs[i-1 : i+1] {
				idle := *y
				idle.Mask = make([]bool, len(y.Mask))
				out = append(out, &idle)
			}
		}
	}
	return out
}

// objective is a loss by the names of its parts.
type objective struct{ policy, kl, entropy string }

// objectives are all losses of a policy, and all KL and entropy terms beside one of them.
func objectives(t *testing.T) []objective {
	t.Helper()
	var all []objective
	for _, policy := range loss.PolicyLosses.Names() {
		l, err := loss.PolicyLosses.Build(policy)
		if err != nil && strings.Contains(err.Error(), "name a class") { // it is a loss of somebody's
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ofScores := l.(loss.Scorer); !ofScores {
			all = append(all, objective{policy, "none", "none"})
		}
	}
	for _, kl := range loss.KLs.Names() {
		if _, err := loss.KLs.Build(kl); err != nil { // it is one of somebody's
			continue
		}
		all = append(all, objective{"gspo", kl, "default"})
	}
	for _, entropy := range loss.Entropies.Names() {
		if _, err := loss.Entropies.Build(entropy); err != nil {
			continue
		}
		all = append(all, objective{"mix", "k3", entropy})
	}
	return all
}

// options returns the options of a trainer that trains an engine with the objective.
func (o objective) options(t *testing.T, g *graded) trainer.Options {
	t.Helper()
	policy, err := loss.PolicyLosses.Build(o.policy)
	if err != nil {
		t.Fatal(err)
	}
	var weighed, bonus map[string]any
	if o.kl != "none" {
		weighed = map[string]any{"kl_coef": 0.1}
	}
	if o.entropy != "none" {
		bonus = map[string]any{"entropy_coef": 0.05}
	}
	kl, err := loss.KLs.Build(o.kl, weighed)
	if err != nil {
		t.Fatal(err)
	}
	entropy, err := loss.Entropies.Build(o.entropy, bonus)
	if err != nil {
		t.Fatal(err)
	}
	l := loss.NewComposite(policy, kl, entropy)
	return trainer.Options{Policy: trainer.Learner{Engine: g, Loss: l}, Reference: l.Needs().Reference}
}

// Every registered policy loss, KL and entropy term, on a model of four layers.
func TestGradientsOfLossesAreInvariant(t *testing.T) {
	opts := randomOptions(t, 4, 128)
	teacher := opts
	teacher.InitSeed = 2
	g := newGraded(t, opts, &teacher)
	xs := groupsOfFour(4, randomTokens(g.cfg.VocabSize))
	g.sampled(t, xs)
	g.moveOn(t, xs, 0.06)
	for _, o := range objectives(t) {
		t.Run(fmt.Sprintf("%s %s %s", o.policy, o.kl, o.entropy), func(t *testing.T) { invariant(t, o.options(t, g), xs, allWays(xs), 1e-6, g) })
	}
}

// The loss of a reward model, which reads scores.
func TestGradientsOfRewardModelsAreInvariant(t *testing.T) {
	opts := randomOptions(t, 4, 128)
	opts.Score, opts.Seed = true, 1
	g := newGraded(t, opts, nil)
	xs := groupsOfFour(4, randomTokens(g.cfg.VocabSize))
	invariant(t, objective{"bradley_terry", "none", "none"}.options(t, g), xs, allWays(xs), 1e-6, g)
}

// The loss of a critic, where values have moved from those before the update, and steps of actor
// and critic with all that comes before them.
func TestGradientsOfCriticsAreInvariant(t *testing.T) {
	opts := randomOptions(t, 4, 128)
	valued := opts
	valued.Value, valued.Seed = true, 1
	policy, critic := newGraded(t, opts, nil), newGraded(t, valued, nil)
	xs := groupsOfFour(4, randomTokens(policy.cfg.VocabSize))
	policy.sampled(t, xs)
	policy.moveOn(t, xs, 0.06)
	value, err := loss.NewValue(0.5)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("value", func(t *testing.T) {
		invariant(t, trainer.Options{Policy: trainer.Learner{Engine: critic, Loss: value}}, xs, allWays(xs), 1e-6, critic)
	})
	for _, name := range []string{"ppo", "a2c"} {
		t.Run(name, func(t *testing.T) {
			advantage, err := registry.Advantages.Build(name, map[string]any{"gamma": 0.98})
			if err != nil {
				t.Fatal(err)
			}
			o := objective{"ppo", "none", "none"}.options(t, policy)
			o.Advantage = advantage
			o.Critic = &trainer.Critic{Learner: trainer.Learner{Engine: critic, Loss: value, Schedule: trainer.Schedule{LR: 1, Type: "constant"}}}
			invariant(t, o, xs, allWays(xs), 1e-6, policy, critic)
		})
	}
}

func TestSmolLM2GradientsOfLossesAreInvariant(t *testing.T) {
	path := smollm2Path(t)
	trinitytest.Long(t, "trains a model of 135 M parameters", "engine/cpu", "algorithm/loss")
	var recorded smollm2
	readJSON(t, "testdata/smollm2.json.gz", &recorded)
	opts := Options{ModelPath: path, MaxTokens: 512, LoRA: &engine.LoRASpec{LoraRank: 8, LoraAlpha: 16}, Seed: 1}
	all, groups, ways := []objective{{"ppo", "none", "none"}, {"gspo", "none", "none"}, {"dpo", "none", "none"}, {"distill", "none", "none"}}, 2, someWays
	if trinitytest.EffortFor() == trinitytest.Heavy { // all losses and weights: 3.3 GB and ten minutes
		opts.LoRA, all, groups, ways = nil, objectives(t), 3, allWays
	}
	g := newGraded(t, opts, &Options{ModelPath: path, MaxTokens: 512})
	next := 0
	xs := groupsOfFour(groups, func() int32 { next++; return recorded.Train[next] })
	g.sampled(t, xs)
	g.moveOn(t, xs, 0.1)
	for _, o := range all {
		t.Run(fmt.Sprintf("%s %s %s", o.policy, o.kl, o.entropy), func(t *testing.T) { invariant(t, o.options(t, g), xs, ways(xs), 1e-5, g) })
	}
}
