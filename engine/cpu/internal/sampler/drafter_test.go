package sampler

import (
	"testing"
	"time"
)

// decodingFor are n sequences with drafts of one chance, as after propose.
func decodingFor(d *drafter, n, drafts int, chance float32) (all []*sequence) {
	for i := range d.odds {
		d.odds[i].chance = chance
	}
	for range n {
		q := &sequence{}
		for range drafts {
			q.drafts = append(q.drafts, draft{})
		}
		all = append(all, q)
	}
	return all
}

func verifiedOf(all []*sequence) (n int) {
	for _, q := range all {
		n += q.verified
	}
	return n
}

// TestAutomaticWeighsTimeAgainstChance gives steps a time of 20 and of what their rows add.
func TestAutomaticWeighsTimeAgainstChance(t *testing.T) {
	for _, c := range []struct {
		sequences   int
		row         float64 // time of a row
		chance      float32
		least, most int
	}{
		{1, 1, 0.95, 8, 16},  // nearly all drafts come true
		{1, 1, 0.5, 1, 4},    // each next one is half as likely
		{1, 1, 0.03, 0, 0},   // a row costs more than it brings
		{8, 1, 0.95, 30, 56}, // as many as there are rows
		{32, 1, 0.95, 16, 32},
		{32, 1, 0.3, 0, 0},
		{8, 10, 0.7, 0, 0}, // arithmetic bounds the step: a row is as dear as a sequence
	} {
		d := newDrafter(Options{Drafts: Automatic, MaxSequences: 32})
		for range trusted {
			for rows := c.sequences; rows <= verifiedRows; rows++ {
				d.pace.record(rows, time.Duration((20+c.row*float64(rows))*1e6))
			}
		}
		all := decodingFor(d, c.sequences, MostDrafts, c.chance)
		d.chooseByPace(all, verifiedRows-c.sequences)
		if n := verifiedOf(all); n < c.least || n > c.most {
			t.Errorf("%+v: %d drafts", c, n)
		}
	}
}

// TestOneSlowStepSpoilsNothing: other programs may take the cores for a while, also in the first step with
// drafts and in all steps for some time.
func TestOneSlowStepSpoilsNothing(t *testing.T) {
	d := newDrafter(Options{Drafts: Automatic, MaxSequences: 8})
	chosen := func() int {
		all := decodingFor(d, 8, 2, 0.9)
		d.chooseByPace(all, 16)
		return verifiedOf(all)
	}
	d.pace.record(8, 28*time.Millisecond)
	if chosen() != 16 {
		t.Errorf("%d drafts before any was measured", chosen())
	}
	d.pace.record(24, time.Second)
	if chosen() != 16 {
		t.Errorf("%d drafts after one slow step", chosen())
	}
	for range 20 {
		d.pace.record(24, time.Second)
	}
	if chosen() == 16 {
		t.Error("steps with 24 rows are slow each time, and are chosen")
	}
	for range outdatedPace {
		d.pace.record(8, 28*time.Millisecond)
	}
	if chosen() != 16 {
		t.Errorf("%d drafts long after the slow steps", chosen())
	}
}

// TestCoarseClock: a clock may stand still during a step.
func TestCoarseClock(t *testing.T) {
	p := newPace(1)
	p.record(1, 0)
	for range 200 {
		p.record(1, 2*time.Millisecond)
	}
	if got := p.rows[1].seconds; got < 1e-3 {
		t.Errorf("after a step of no time, 200 of 2 ms count as %v s", got)
	}
}

// TestCurveOfTimes draws times between and behind the measured ones.
func TestCurveOfTimes(t *testing.T) {
	p := newPace(10)
	for range trusted {
		p.record(2, 100*time.Millisecond)
		p.record(6, 140*time.Millisecond)
	}
	times := make([]float32, 9)
	p.curve(times, 2)
	for i, want := range []float32{100, 110, 120, 130, 140, 144, 148, 152, 156} {
		if got := 1000 * times[i]; got < want-0.01 || got > want+0.01 {
			t.Errorf("%d rows: %v ms, want %v", 2+i, got, want)
		}
	}
}

// TestNobodySearchesInVain: where no draft pays, most steps look for none, and drafts come back once they do.
func TestNobodySearchesInVain(t *testing.T) {
	d := newDrafter(Options{Drafts: Automatic, MaxSequences: 1})
	r := &request{prompt: []int32{1, 2, 3, 4}, adapter: &adapter{}, length: 99}
	q := &sequence{request: r, tokens: []int32{7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8}}
	d.learn(q, len(q.tokens))
	searched := func(chance float32) (n int) {
		for i := range d.odds {
			d.odds[i].chance = chance
		}
		for range 80 {
			d.pace.record(1, time.Millisecond)
			if d.choose([]*sequence{q}, 8); len(q.drafts) > 0 {
				n++
			}
		}
		return n
	}
	if n := searched(0.01); n < 8 || n > 20 {
		t.Errorf("%d of 80 steps without a likely draft have looked for one", n)
	}
	if n := searched(0.9); n < 70 {
		t.Errorf("%d of 80 steps with likely drafts have looked for one", n)
	}
}

// TestOddsFollowWhatIsDrawn: a kind whose drafts stop coming true is soon unlikely, and the other way.
func TestOddsFollowWhatIsDrawn(t *testing.T) {
	o := odds{chance: 0.5}
	for range 100 {
		o.record(true)
	}
	if o.chance < 0.95 {
		t.Errorf("%v after 100 hits", o.chance)
	}
	for range 100 {
		o.record(false)
	}
	if o.chance > 0.1 {
		t.Errorf("%v after 100 misses", o.chance)
	}
}
