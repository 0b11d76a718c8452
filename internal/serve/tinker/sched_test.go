package tinker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// worker wants slices of a part of a key for ever.
type worker struct {
	key, part string
	slice     func() int // tokens of the next one
	turn      *turn
	had       int
}

// bench computes the slices of workers one after another, on a clock of tokens.
type bench struct {
	q    *queue
	now  time.Time
	done int // tokens
}

func newBench(perHour int64) *bench {
	b := &bench{now: time.Unix(0, 0)}
	a := newAccount(func(key string) int64 {
		if key == "bounded" {
			return perHour
		}
		return 0
	})
	a.now = func() time.Time { return b.now }
	a.after = func(time.Duration, func()) {}
	b.q = newQueue(a, 1, 2048)
	return b
}

func (t *turn) isOn() bool {
	select {
	case <-t.given:
		return true
	default:
		return false
	}
}

func (b *bench) ask(workers []*worker) {
	for _, w := range workers {
		if w.turn == nil {
			w.turn = b.q.ask(w.key, w.part, 1)
		}
	}
}

// run gives workers slices until so many tokens are computed.
func (b *bench) run(until int, workers ...*worker) {
	for b.done < until {
		b.ask(workers)
		for _, w := range workers {
			if w.turn == nil || !w.turn.isOn() {
				continue
			}
			n := w.slice()
			w.turn.charge(n)
			w.had, b.done = w.had+n, b.done+n
			b.now = b.now.Add(time.Duration(n) * time.Millisecond)
			w.turn.again() // it has more to do
		}
	}
}

// stop ends what a worker wants.
func (b *bench) stop(w *worker) {
	w.turn.leave()
	w.turn = nil
}

func near(a, b int) bool { return float64(a) > 0.95*float64(b) && float64(b) > 0.95*float64(a) }

func between(seed uint64, least, most int) func() int {
	r := rand.New(rand.NewPCG(seed, 0))
	return func() int { return least + r.IntN(most-least+1) }
}

// Two busy keys have the same tokens, whatever their slices are and however many models they have.
func TestKeysShareAlike(t *testing.T) {
	b := newBench(0)
	ann := []*worker{
		{key: "ann", part: "1", slice: between(1, 1, 2048)}, {key: "ann", part: "2", slice: between(2, 2048, 2048)},
		{key: "ann", part: "3", slice: between(3, 1, 64)},
	}
	bob := &worker{key: "bob", part: "1", slice: between(4, 1, 200)}
	b.run(400_000, append(ann, bob)...)
	sum := ann[0].had + ann[1].had + ann[2].had
	if !near(sum, bob.had) || !near(ann[0].had, ann[1].had) || !near(ann[1].had, ann[2].had) {
		t.Errorf("ann %d, %d, %d, bob %d", ann[0].had, ann[1].had, ann[2].had, bob.had)
	}
}

// What a key samples counts when it trains.
func TestSamplingSharesTheAccount(t *testing.T) {
	b := newBench(0)
	ann, bob := &worker{key: "ann", part: "1", slice: between(1, 500, 500)}, &worker{key: "bob", part: "1", slice: between(2, 300, 700)}
	sampler, sampled := newQueue(b.q.account, 4, 2048), 0
	for until := 1000; until < 300_000; until += 1000 {
		b.run(until, ann, bob)
		x := sampler.ask("ann", "sampler", 2)
		if !x.isOn() {
			t.Fatal("the sampler has room")
		}
		x.charge(150)
		sampled += 150
		x.leave()
	}
	if !near(ann.had+sampled, bob.had) {
		t.Errorf("ann trains %d and samples %d, bob trains %d", ann.had, sampled, bob.had)
	}
}

// Who comes, or comes back, waits for the slice that is computed, and not for what others have had before.
func TestANewcomerWaitsForOneSlice(t *testing.T) {
	b := newBench(0)
	busy := []*worker{
		{key: "ann", part: "1", slice: between(1, 100, 2048)}, {key: "ann", part: "2", slice: between(2, 100, 2048)},
		{key: "bob", part: "1", slice: between(3, 100, 2048)},
	}
	for i := range 30 {
		b.run(b.done+20_000, busy...)
		var running *turn
		for _, w := range busy {
			if w.turn == nil {
				w.turn = b.q.ask(w.key, w.part, 1)
			}
			if w.turn.isOn() {
				running = w.turn
			}
		}
		running.charge(2048)
		came := b.q.ask("carl", "1", 1)
		if came.isOn() {
			t.Fatal("two at once")
		}
		running.again()
		if !came.isOn() {
			t.Fatalf("time %d: carl waits for a second slice", i)
		}
		came.charge(10)
		came.leave()
		if i%3 == 0 { // they come back, too
			for _, w := range busy {
				b.stop(w)
			}
		}
	}
}

// waits returns how many slices of others a request of one short slice waits for, while workers are busy and one of them computes.
func (b *bench) waits(key, part string, workers ...*worker) (slices int) {
	b.run(b.done+1, workers...)
	came := b.q.ask(key, part, 1)
	for ; !came.isOn() && slices < 100; slices++ {
		for _, w := range workers {
			if w.turn.isOn() {
				n := w.slice()
				w.turn.charge(n)
				w.had, b.done = w.had+n, b.done+n
				w.turn.again()
				break
			}
		}
	}
	came.charge(10)
	came.leave()
	return slices
}

// A request of one datum waits for one slice of others, whether its key is new, is one of five that are busy, or is the only one.
func TestAShortRequestWaitsForOneSlice(t *testing.T) {
	for name, keys := range map[string][]string{
		"five keys": {"ann", "bob", "carl", "dora", "emil"}, "models of a key": {"ann", "ann", "ann"},
	} {
		b := newBench(0)
		var workers []*worker
		for i, key := range keys {
			workers = append(workers, &worker{key: key, part: fmt.Sprint(i), slice: between(uint64(i), 2048, 2048)})
		}
		for i := range 40 {
			b.run(b.done+9_000, workers...)
			for _, of := range []string{"ann", "fred"} {
				if n := b.waits(of, fmt.Sprintf("%s %d", of, i), workers...); n > 1 {
					t.Fatalf("%s, time %d: a new model of %s waits for %d slices", name, i, of, n)
				}
				b.run(b.done+20_000, workers...)
			}
		}
	}
}

// Those who send one request after another have no more than those who have sent all.
func TestShortRequestsAddUp(t *testing.T) {
	b := newBench(0)
	busy := []*worker{
		{key: "ann", part: "1", slice: between(1, 2048, 2048)}, {key: "bob", part: "1", slice: between(2, 2048, 2048)},
		{key: "dora", part: "1", slice: between(4, 100, 2048)}, {key: "emil", part: "1", slice: between(5, 100, 2048)},
	}
	var carl *turn
	had, models := 0, 0
	for b.ask(busy); b.done < 400_000; {
		if carl == nil { // a model of its own for each
			models++
			carl = b.q.ask("carl", fmt.Sprint(models), 1)
		}
		if carl.isOn() {
			carl.charge(1000)
			had, b.done = had+1000, b.done+1000
			carl.leave()
			carl = nil
			continue
		}
		b.run(b.done+1, busy...)
	}
	for _, w := range busy {
		if !near(w.had, had) {
			t.Errorf("%s has had %d, carl %d", w.key, w.had, had)
		}
	}
}

// Who was away, who only samples, and who is paused has no credit: others wait for a slice or two of it.
func TestNobodyHasCredit(t *testing.T) {
	b := newBench(36_000)
	slice := between(1, 2048, 2048)
	ann, bob := &worker{key: "ann", part: "1", slice: slice}, &worker{key: "bob", part: "1", slice: slice}
	carl, paused := &worker{key: "carl", part: "1", slice: slice}, &worker{key: "bounded", part: "1", slice: slice}
	b.run(200_000, ann, bob, carl, paused)
	b.stop(carl)
	sampler := newQueue(b.q.account, 4, 2048)
	long := sampler.ask("carl", "sampler", 1) // and it goes on for long
	b.run(600_000, ann, bob, paused)
	b.now = b.now.Add(time.Hour)
	dora := &worker{key: "dora", part: "1", slice: slice}
	ann.had, bob.had, carl.had, paused.had = 0, 0, 0, 0
	b.run(b.done+20*2048, ann, bob, carl, paused, dora)
	long.leave()
	for _, w := range []*worker{carl, dora, paused} {
		if w.had > min(ann.had, bob.had)+2*2048 {
			t.Errorf("of 20 slices %s has had %d, and ann %d, bob %d", w.key, w.had/2048, ann.had/2048, bob.had/2048)
		}
	}
}

// A key that nobody competed with owes little when somebody comes.
func TestOldUseIsForgotten(t *testing.T) {
	b := newBench(0)
	ann, bob := &worker{key: "ann", part: "1", slice: between(1, 1000, 1000)}, &worker{key: "bob", part: "1", slice: between(2, 1000, 1000)}
	b.run(10_000_000, ann)
	b.stop(ann)
	ann.had, b.done = 0, 0
	b.run(200_000, ann, bob)
	if !near(ann.had, bob.had) {
		t.Errorf("ann %d, bob %d", ann.had, bob.had)
	}
	b.stop(ann)
	b.run(b.done+1_000_000, bob)
	ann.had, bob.had, b.done = 0, 0, 0
	b.run(200_000, ann, bob)
	if !near(ann.had, bob.had) {
		t.Errorf("afterwards ann %d, bob %d", ann.had, bob.had)
	}
}

// A key with so many tokens an hour has an hour's at once, and then what comes with time. Others do not wait for it.
func TestTokensOfAnHour(t *testing.T) {
	b := newBench(36_000) // 10 a second, and the clock has 1000 tokens a second
	slice := between(1, 100, 100)
	bounded, free := &worker{key: "bounded", part: "1", slice: slice}, &worker{key: "free", part: "1", slice: slice}
	b.run(100_000, bounded, free)
	if bounded.had < 36_000 || bounded.had > 37_500 {
		t.Errorf("it has had %d", bounded.had)
	}
	wait, why := b.q.account.pause("bounded")
	if want := "the key bounded has used its 36000 tokens of an hour: more in "; wait <= 0 || wait > time.Minute || why[:len(want)] != want {
		t.Errorf("%v, %s", wait, why)
	}
	if wait, _ := b.q.account.pause("free"); wait != 0 {
		t.Errorf("free waits %v", wait)
	}
	b.now = b.now.Add(30 * time.Minute)
	if free.turn != nil {
		free.turn.leave()
	}
	if b.q.look(); bounded.turn == nil || !bounded.turn.isOn() {
		t.Error("it waits after half an hour")
	}
}

// A request of several units waits for its room, and who gives up leaves none behind.
func TestTurnsEnd(t *testing.T) {
	q := newQueue(newAccount(func(string) int64 { return 0 }), 4, 2048)
	one, all := q.ask("ann", "1", 1), q.ask("bob", "1", 100)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := q.enter(ctx, "carl", "1", 2); !errors.Is(err, gone) {
		t.Error(err)
	}
	if !one.isOn() || all.isOn() || q.units("bob") != 4 {
		t.Error("the large one has a turn")
	}
	if err := one.yield(ctx); !errors.Is(err, gone) || !all.isOn() {
		t.Error(err)
	}
	one.leave()
	all.leave()
	all.leave()
	if q.free != 4 || q.keys.parts["ann"].busy+q.keys.parts["bob"].busy+q.keys.parts["carl"].busy != 0 {
		t.Errorf("%d free", q.free)
	}
}

// The turns of jobs are those of the account: the key with the fewest tokens comes first, one without tokens waits, and a long
// turn ends when another key waits that has had less.
func TestTurnsOfJobs(t *testing.T) {
	b := newBench(100)
	jobs := &Turns{queue: b.q}
	enter := func(key string) *Turn {
		t.Helper()
		at, err := jobs.Enter(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	over := func(at *Turn, isLong bool, want string) {
		t.Helper()
		if why := at.Over(isLong); why != want {
			t.Errorf("a turn is over by %q, want %q", why, want)
		}
	}
	a := enter("a")
	over(a, true, "")
	waits := b.q.ask("b", jobPart, 1)
	a.Compute(10, 20)
	over(a, false, "")
	over(a, true, "it is the turn of another key")
	second := b.q.ask("a", jobPart, 1)
	a.Leave()
	if !waits.isOn() || second.isOn() {
		t.Error("a has the next turn, too")
	}
	waits.leave()
	second.leave()
	bounded := enter("bounded")
	bounded.Compute(60, 60)
	over(bounded, false, "the key bounded has used its 100 tokens of an hour: more in 12m37s")
	bounded.Leave()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := jobs.Enter(ended, "bounded"); !errors.Is(err, context.Canceled) {
		t.Errorf("a key without tokens has a turn: %v", err)
	}
	b.now = b.now.Add(13 * time.Minute)
	enter("bounded").Leave()
	used := b.q.account.usage()["a"]
	if used[trainedTokens] != 10 || used[sampledTokens] != 20 {
		t.Errorf("%v", used)
	}
}
