package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		s    Schedule
		step int64
		want float64
	}{
		{Schedule{LR: 2, Type: "constant"}, 7, 2},
		{Schedule{LR: 2, WarmupSteps: 4, Type: "constant"}, 1, 0.5},
		{Schedule{LR: 2, WarmupSteps: 4, MinRatio: 0.5, Type: "constant"}, 2, 1.5},
		{Schedule{LR: 2, TotalSteps: 10, MinRatio: 0.1, Type: "linear"}, 5, 1.1},
		{Schedule{LR: 2, TotalSteps: 10, MinRatio: 0.1, Type: "linear"}, 10, 0.2},
		{Schedule{LR: 2, TotalSteps: 10, MinRatio: 0.1, Type: "linear"}, 99, 0.2},
		{Schedule{LR: 2, TotalSteps: 12, WarmupSteps: 2, Type: "cosine"}, 7, 1},
		{Schedule{LR: 2, TotalSteps: 12, WarmupSteps: 2, MinRatio: 0.1, Type: "cosine"}, 12, 0.2},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, MinRatio: 0.5, Type: "wsd"}, 2, 1.5},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, Type: "wsd"}, 4, 2},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, Type: "wsd"}, 80, 2},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, Type: "wsd"}, 85, 1.5},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, MinRatio: 0.1, Type: "wsd"}, 90, 1.1},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, MinRatio: 0.1, Type: "wsd"}, 100, 0.2},
		{Schedule{LR: 2, TotalSteps: 100, WarmupSteps: 4, DecayRatio: 0.2, MinRatio: 0.1, Type: "wsd"}, 101, 0.2},
		{Schedule{LR: 2, TotalSteps: 10, WarmupSteps: 6, DecayRatio: 1, Type: "wsd"}, 8, 1},     // there is no stable part
		{Schedule{LR: 2, TotalSteps: 3, DecayRatio: 0.1, Type: "wsd"}, 3, 2},                    // the decay takes less than half a step
		{Schedule{LR: 2, TotalSteps: 10, WarmupSteps: 20, MinRatio: 0.5, Type: "wsd"}, 10, 1.5}, // the run ends in the warm-up
	} {
		if got := c.s.At(c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at step %d = %v, want %v", c.s, c.step, got, c.want)
		}
	}
	for _, bad := range []Schedule{{Type: "cosin"}, {Type: "wsd"}, {Type: "linear"}, {Type: "cosine"}} {
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// sequence returns an experience with a prompt of p and a reply of r tokens. Prompts with other
// tags differ.
func sequence(tag int32, p, r int) *trinity.Experience {
	e := &trinity.Experience{Tokens: make([]int32, p+r), Mask: make([]bool, p+r), PromptLen: p}
	e.Tokens[0] = tag
	for t := p; t < p+r; t++ {
		e.Mask[t] = true
	}
	return e
}

func TestMicroBatches(t *testing.T) {
	exps := []*trinity.Experience{sequence(1, 6, 4), sequence(1, 6, 4), sequence(1, 6, 4), sequence(2, 6, 4), sequence(3, 20, 9)}
	for i, e := range exps {
		e.Tokens[e.PromptLen] = int32(i) // the replies differ
	}
	for _, c := range []struct {
		budget, unit int
		want         []int
	}{
		{1000, 1, []int{5}},
		{18, 1, []int{3, 1, 1}}, // 6+4+4+4 = 18: the shared prompt counts once
		{17, 1, []int{2, 1, 1, 1}},
		{1, 1, []int{1, 1, 1, 1, 1}}, // a sequence over the budget is a piece of its own
		{1000, 2, []int{5}},
		{28, 2, []int{4, 1}}, // 14 and 4+10: the third shares the prompt of the second
		{27, 2, []int{2, 2, 1}},
		{1, 2, []int{2, 2, 1}}, // a pair over the budget is a piece of its own and stays together
	} {
		var got []int
		for _, m := range wholeUnits(exps, c.budget, c.unit) {
			got = append(got, len(m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("budget %d, units of %d: %v, want %v", c.budget, c.unit, got, c.want)
		}
	}
}

// A group stays in one piece if it fits, because a second piece would compute its prompt again.
func TestMicroBatchesKeepGroupsTogether(t *testing.T) {
	var exps []*trinity.Experience
	for group := range int32(3) {
		for reply := range int32(8) {
			e := sequence(1+group, 110, 64)
			e.Tokens[e.PromptLen] = reply
			exps = append(exps, e)
		}
	}
	for budget, want := range map[int][]int{
		1024:    {8, 8, 8}, // of 622 tokens each
		2 * 622: {16, 8},
		621:     {7, 6, 6, 5}, // no group fits
	} {
		var got []int
		for _, m := range wholeUnits(exps, budget, 1) {
			got = append(got, len(m))
		}
		if !slices.Equal(got, want) {
			t.Errorf("budget %d: %v, want %v", budget, got, want)
		}
	}
}

// No other cut costs less, of experiences of any lengths with any prefixes in common, in units of any size.
func TestMicroBatchesCostTheLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var exps []*trinity.Experience
		for range rng.IntN(9) {
			e := sequence(1, 1+rng.IntN(60), 1)
			e.Tokens[rng.IntN(len(e.Tokens))] = int32(rng.IntN(2))
			exps = append(exps, e)
		}
		unit, budget := 1+rng.IntN(3), 30+rng.IntN(150)
		count := func(piece []*trinity.Experience) int {
			var tokens experience.Prefixes
			for _, e := range piece {
				tokens.Add(e.Tokens)
			}
			return tokens.Tokens()
		}
		var best func(left []*trinity.Experience) int
		best = func(left []*trinity.Experience) (least int) {
			for n := unit; n-unit < len(left); n += unit {
				piece := left[:min(n, len(left))]
				tokens := count(piece)
				if n > unit && tokens > budget {
					break
				}
				if cost := tokens + pieceCost + best(left[len(piece):]); n == unit || cost < least {
					least = cost
				}
			}
			return least
		}
		cost, held := 0, 0
		for _, piece := range wholeUnits(exps, budget, unit) {
			if len(piece) > unit && count(piece) > budget {
				t.Errorf("a piece of %d experiences in units of %d has %d tokens, more than %d", len(piece), unit, count(piece), budget)
			}
			cost, held = cost+count(piece)+pieceCost, held+len(piece)
		}
		if want := best(exps); cost != want || held != len(exps) {
			t.Errorf("%d of %d experiences in units of %d, %d tokens at most: cost %d, want %d", held, len(exps), unit, budget, cost, want)
		}
	}
}

// Steps of a rollout begin with the steps before them, and branches with the tokens before they
// part: both count once, beside another rollout too.
func TestMicroBatchesCountBranchesOnce(t *testing.T) {
	var exps []*trinity.Experience
	for rollout := range int32(2) {
		for step := range 4 {
			e := sequence(1, 5, 3+4*step)
			e.Tokens[5] = rollout
			exps = append(exps, e)
		}
		branch := sequence(1, 5, 12)
		branch.Tokens[5], branch.Tokens[10] = rollout, 7
		exps = append(exps, branch)
	}
	const rollout = 15 + 7 // of 20 tokens, and a branch that parts after 10
	for budget, want := range map[int]int{5 + 2*rollout: 1, 5 + 2*rollout - 1: 2, 5 + rollout: 2} {
		if pieces := wholeUnits(exps, budget, 1); len(pieces) != want {
			t.Errorf("budget %d: %d pieces, want %d", budget, len(pieces), want)
		}
	}
}

// reinforce is the loss −A·logprob, a mean over the tokens of the whole optimizer step.
type reinforce struct{}

func (reinforce) Streams() trinity.Streams { return trinity.Streams{} }

func (reinforce) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	total := 0
	for _, e := range b.Whole {
		total += e.TrainedTokens()
	}
	grads := make([]trinity.TokenGrads, len(now))
	loss := 0.0
	for i, e := range b.Experiences {
		grads[i].Logprob = make([]float32, len(e.Tokens))
		for t, m := range e.Mask {
			if m {
				grads[i].Logprob[t] = -e.Advantages[t] / float32(total)
				loss -= float64(e.Advantages[t]*now[i].Logprob[t]) / float64(total)
			}
		}
	}
	return grads, trinity.Metrics{"final_loss": loss}, nil
}

// scored returns n experiences with advantages: 1 for token 1 and −1 for token 0.
func scored(n int) trinity.Group {
	g := make(trinity.Group, n)
	for i := range g {
		token := int32(i % 2)
		a := float32(2*token - 1)
		g[i] = &trinity.Experience{
			ID: trinity.ExperienceID{Task: "t", Run: i}, Tokens: []int32{5, token}, Mask: []bool{false, true}, PromptLen: 1,
			Advantages: []float32{0, a}, Reward: trinity.NewReward(map[string]float64{"r": float64(token)}),
		}
	}
	return g
}

// saveFunc is a Checkpointer.
type saveFunc func(at Progress, last bool) error

func (f saveFunc) Save(_ context.Context, at Progress, last bool) error { return f(at, last) }

// publishFunc implements Weights.
type publishFunc func(version int64) error

func (f publishFunc) Publish(_ context.Context, version int64) error { return f(version) }

// recorder is a Recorder made of functions; nil functions ignore what they would get.
type recorder struct {
	log  func(step int64, m trinity.Metrics)
	say  func(line string)
	took func(step int64, f provenance)

	progress func(doing string, done, total int)
}

func (r recorder) Log(_ context.Context, step int64, m trinity.Metrics) error {
	if r.log != nil {
		r.log(step, m)
	}
	return nil
}

func (r recorder) Took(step int64, trained []trinity.ExperienceID, dropped map[string][]trinity.ExperienceID) error {
	if r.took != nil {
		r.took(step, provenance{trained, dropped})
	}
	return nil
}

func (r recorder) Progress(doing string, done, total int) {
	if r.progress != nil {
		r.progress(doing, done, total)
	}
}

func (r recorder) Say(line string) {
	if r.say != nil {
		r.say(line)
	}
}

// newOptions returns the options of a trainer of a bandit whose queue has data for the given number
// of steps. The trainer appends its checkpoints to saved and its metrics to the returned slice.
func newOptions(t *testing.T, steps int, saved *[]int64) (*Options, *trinitytest.Bandit, *[]trinity.Metrics) {
	t.Helper()
	q := buffer.NewQueue(1<<20, 0, nil)
	for range steps {
		if err := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{scored(8)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	b := trinitytest.NewBandit(6)
	logged := &[]trinity.Metrics{}
	return &Options{
		Source: q, Policy: Learner{Engine: b, Loss: reinforce{}, Schedule: Schedule{LR: 0.5, Type: "constant"}},
		BatchSize: 8, MicroTokens: 4, SyncInterval: 1,
		Checkpointer: saveFunc(func(at Progress, _ bool) error { *saved = append(*saved, at.Step); return nil }),
		Recorder:     recorder{log: func(_ int64, m trinity.Metrics) { *logged = append(*logged, m) }},
	}, b, logged
}

func TestRunLearnsAndSaves(t *testing.T) {
	var saved []int64
	o, b, logged := newOptions(t, 5, &saved)
	o.SaveInterval = 2
	tr := New(*o)
	if err := tr.Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if tr.at.Step != 5 || len(saved) != 3 || saved[2] != 5 {
		t.Errorf("ended at step %d with checkpoints %v", tr.at.Step, saved)
	}
	if b.Weights[1] <= b.Weights[0] || b.Weights[1] <= b.Weights[2] {
		t.Errorf("logits %v: want token 1 to be the most likely", b.Weights)
	}
	m := (*logged)[0]
	if m["actor/lr"] != 0.5 || m["critic/rewards/mean"] != 0.5 || m["perf/total_num_tokens"] != 16 || m["actor/grad_norm"] <= 0 {
		t.Errorf("metrics %v", m)
	}
}

// A display shows what the trainer does now: publishing, an evaluation and a checkpoint are not "trains step N".
func TestProgressNamesTheWork(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	o.SaveInterval, o.TotalSteps = 1, 1
	o.Weights = publishFunc(func(int64) error { return nil })
	o.Evaluation.HeldOut = []HeldOut{{"h", reinforce{}, scored(2)}}
	var doings []string
	o.Recorder = recorder{progress: func(doing string, _, _ int) {
		if len(doings) == 0 || doings[len(doings)-1] != doing {
			doings = append(doings, doing)
		}
	}}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "waits for experiences, trains step 1, publishes version 1, evaluates step 1, writes the checkpoint of step 1"
	if got := strings.Join(doings, ", "); got != want {
		t.Errorf("the trainer %s; want %s", got, want)
	}
}

// actor/optimizer_steps counts the optimizer steps that had something to train on, also those before a
// checkpoint. A checkpoint that does not say how many there were leaves the number unknown.
func TestOptimizerStepsAreCounted(t *testing.T) {
	for _, c := range []struct {
		epochs, mini int
		from         int64
		masked       bool // half of each batch is masked
		want         string
	}{
		{0, 0, 0, false, "[1 2]"}, {2, 4, 0, false, "[4 8]"}, {3, 3, 100, false, "[109 118]"}, {2, 4, 0, true, "[2 4]"}, {1, 0, -1, false, "[]"},
	} {
		o, b, _ := newOptions(t, 2, new([]int64))
		o.Policy.Epochs, o.Policy.MiniBatch, o.From.OptimizerSteps = c.epochs, c.mini, c.from
		if c.masked {
			o.Source = &masking{o.Source}
		}
		var logged []float64
		o.Recorder = recorder{log: func(_ int64, m trinity.Metrics) {
			if v, ok := m["actor/optimizer_steps"]; ok {
				logged = append(logged, v)
			}
		}}
		var saved Progress
		o.Checkpointer = saveFunc(func(at Progress, _ bool) error { saved = at; return nil })
		steps := &stepping{Bandit: b}
		o.Policy.Engine = steps
		if err := New(*o).Run(t.Context(), t.Context()); err != nil || fmt.Sprint(logged) != c.want {
			t.Errorf("%+v: logged %v, %v", c, logged, err)
		}
		if want := c.from + steps.n; c.from >= 0 && saved.OptimizerSteps != want || c.from < 0 && saved.OptimizerSteps >= 0 {
			t.Errorf("%+v: the checkpoint has %d, and the engine took %d", c, saved.OptimizerSteps, steps.n)
		}
	}
}

// stepping counts the optimizer steps of a bandit.
type stepping struct {
	*trinitytest.Bandit
	n int64
}

func (c *stepping) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	c.n++
	return c.Bandit.OptimStep(ctx, p)
}

// masking is a source whose batches begin with experiences that nobody trains on.
type masking struct{ trinity.Source }

func (s *masking) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := s.Source.Take(ctx, want)
	exps := taken.Experiences()
	for _, e := range exps[:len(exps)/2] {
		e.Mask = make([]bool, len(e.Tokens))
	}
	return taken, err
}

// A run that resumes with a shorter sync_interval first publishes the version that explorers may be
// waiting for.
func TestShorterIntervalPublishesFirst(t *testing.T) {
	for _, c := range []struct {
		step, published, interval int64
		want                      string
	}{
		{3, 0, 1, "[3 4 5]"}, {3, 0, 2, "[3 4]"}, {3, 0, 4, "[4]"}, {3, 2, 2, "[4]"}, {3, 3, 4, "[4]"}, {0, 0, 2, "[2 4]"},
	} {
		o, _, _ := newOptions(t, 5, new([]int64))
		o.From = Progress{Step: c.step, Published: c.published}
		o.TotalSteps, o.SyncInterval = 5, c.interval
		var published []int64
		o.Weights = publishFunc(func(version int64) error {
			published = append(published, version)
			return nil
		})
		if err := New(*o).Run(t.Context(), t.Context()); err != nil || fmt.Sprint(published) != c.want {
			t.Errorf("%+v: published %v, %v", c, published, err)
		}
	}
}

// The trainer reports a last batch that is short.
func TestShortLastBatchIsReported(t *testing.T) {
	for batch, want := range map[int]string{8: "", 12: "", 10: "train step 3, the last one, had 4 of 10 experiences: there were no more"} {
		o, _, _ := newOptions(t, 3, new([]int64))
		o.BatchSize = batch
		said := ""
		o.Recorder = recorder{say: func(line string) { said += line }}
		if err := New(*o).Run(t.Context(), t.Context()); err != nil || said != want {
			t.Errorf("batches of %d of 24: said %q, %v; want %q", batch, said, err, want)
		}
	}
}

// meagre is a source whose first two batches have half of the experiences.
type meagre struct {
	trinity.Source
	takes int
}

func (s *meagre) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	if s.takes++; s.takes <= 2 {
		want.N /= 2
	}
	return s.Source.Take(ctx, want)
}

// Of the short batches before the last, the trainer reports only the first.
func TestFirstShortBatchIsReported(t *testing.T) {
	o, _, _ := newOptions(t, 3, new([]int64))
	o.Source = &meagre{Source: o.Source}
	said := ""
	o.Recorder = recorder{say: func(line string) { said += line }}
	want := "train step 1 had 4 of 8 experiences: its version had no more; of later short steps only the last is reported"
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || said != want {
		t.Errorf("said %q, %v; want %q", said, err, want)
	}
}

// late is a source that times out after the given number of batches.
type late struct {
	trinity.Source
	gives int
}

func (l *late) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	if l.gives--; l.gives < 0 {
		return trinity.Taken{}, fmt.Errorf("waiting for the explorer: %w", os.ErrDeadlineExceeded)
	}
	return l.Source.Take(ctx, want)
}

// When the trainer times out waiting for experiences, it saves the steps since the last checkpoint.
func TestStarvedTrainerSaves(t *testing.T) {
	for interval, want := range map[int64][]int64{0: {3}, 2: {2, 3}, 3: {3}} {
		var saved []int64
		o, _, _ := newOptions(t, 5, &saved)
		o.Source, o.SaveInterval = &late{o.Source, 3}, interval
		err := New(*o).Run(t.Context(), t.Context())
		if !errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "saved step 3") != (interval != 3) {
			t.Errorf("ended with %v", err)
		}
		if !slices.Equal(saved, want) {
			t.Errorf("a checkpoint every %d steps: saved %v, want %v", interval, saved, want)
		}
	}
}

// slow is an engine that times out once late is set.
type slow struct {
	engine.Trainer
	late bool
}

func (s *slow) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	if !s.late {
		return s.Trainer.ForwardBackward(ctx, b, loss)
	}
	return nil, fmt.Errorf("an engine elsewhere: %w", context.DeadlineExceeded)
}

// When the engine times out, the trainer does not save: the source has handed out the batch of the
// unfinished step, so the checkpoint would lose it.
func TestUnfinishedStepIsNotSaved(t *testing.T) {
	o, _, _ := newOptions(t, 5, new([]int64))
	trainer := &slow{Trainer: o.Policy.Engine}
	o.Policy.Engine = trainer
	o.Recorder = recorder{log: func(int64, trinity.Metrics) { trainer.late = true }}
	o.Checkpointer = saveFunc(func(at Progress, _ bool) error {
		t.Errorf("the trainer saved step %d after it took the batch of the next step", at.Step)
		return nil
	})
	if err := New(*o).Run(t.Context(), t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// claimed are weights that tell when the trainer may change them.
type claimed func() error

func (claimed) Publish(context.Context, int64) error { return nil }

func (c claimed) Claim(context.Context) error { return c() }

// The trainer claims the weights before each optimizer step, and makes none if it does not get them.
func TestWeightsAreClaimedBeforeTheyChange(t *testing.T) {
	o, b, _ := newOptions(t, 3, new([]int64))
	claims := [][]float64{nil}
	refused := errors.New("the explorer never ended")
	to := &told{}
	o.Tracing = Tracing{Tracer: to}
	o.Weights = claimed(func() error {
		if slices.Equal(b.Weights, claims[len(claims)-1]) {
			t.Error("the step before changed nothing")
		}
		if claims = append(claims, slices.Clone(b.Weights)); len(claims) > 3 {
			return refused
		}
		return nil
	})
	if err := New(*o).Run(t.Context(), t.Context()); !errors.Is(err, refused) {
		t.Error(err)
	}
	if len(claims) != 4 || !slices.Equal(b.Weights, claims[3]) {
		t.Errorf("claimed %v, and the weights are %v", claims[1:], b.Weights)
	}
	waits := 0
	for _, s := range to.spans {
		if s.Kind == trinity.SpanWait && s.Name == "policy" && s.For == trinity.RoleExplorer {
			waits++
		}
	}
	if waits != 2 { // the third claim was refused
		t.Errorf("%d waits for the explorer's samples in the trace, want 2", waits)
	}
}

// If the source ends right after a checkpoint, the trainer saves the step again, as the last.
func TestLastCheckpointIsSavedAsTheLast(t *testing.T) {
	o, _, _ := newOptions(t, 4, new([]int64))
	o.SaveInterval = 2
	var saved []string
	o.Checkpointer = saveFunc(func(at Progress, last bool) error {
		saved = append(saved, fmt.Sprint(at.Step, last))
		return nil
	})
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(saved, ", "); got != "2 false, 4 false, 4 true" {
		t.Errorf("saved %s", got)
	}
}

func TestResultDoesNotDependOnMicroBatches(t *testing.T) {
	var want []float64 // the weights of policy and critic
	for _, tokens := range []int{2, 6, 1000} {
		o, b, _ := newOptions(t, 3, new([]int64))
		c := newCritic(t, o)
		o.MicroTokens = tokens
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		got := slices.Concat(b.Weights, c.Weights)
		if want == nil {
			want = got
		}
		for v := range want {
			if math.Abs(got[v]-want[v]) > 1e-6 {
				t.Errorf("%d tokens a micro-batch: weights %v, want %v", tokens, got, want)
			}
		}
	}
}

func TestMiniBatchesAndEpochsMakeOptimizerSteps(t *testing.T) {
	o, b, _ := newOptions(t, 1, new([]int64))
	o.Policy.MiniBatch, o.Policy.Epochs = 4, 2
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	one, single, _ := newOptions(t, 1, new([]int64))
	if err := New(*one).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.Weights[1] < 3*single.Weights[1] {
		t.Errorf("four optimizer steps moved the logit to %v, one to %v", b.Weights[1], single.Weights[1])
	}
}

func TestStopSavesTheLastCompleteStep(t *testing.T) {
	for name, total := range map[string]int64{"5 steps": 5, "until the source ends": 0} {
		t.Run(name, func(t *testing.T) {
			var saved []int64
			o, _, _ := newOptions(t, 5, &saved)
			o.TotalSteps = total
			stop, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("interrupted")
			o.Weights = publishFunc(func(version int64) error {
				if version == 3 {
					cancel(cause)
				}
				return nil
			})
			if err := New(*o).Run(t.Context(), stop); !errors.Is(err, cause) {
				t.Errorf("got %v, want the cause", err)
			}
			if len(saved) != 1 || saved[0] != 3 {
				t.Errorf("saved %v, want step 3", saved)
			}
		})
	}
}

func TestErrorNamesTheStep(t *testing.T) {
	o, _, _ := newOptions(t, 2, new([]int64))
	o.Weights = publishFunc(func(int64) error { return errors.New("no room") })
	if err := New(*o).Run(t.Context(), t.Context()); err == nil || !strings.Contains(err.Error(), "trainer step 1: no room") {
		t.Errorf("got %v", err)
	}
}
