package run_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// The test kills explorer and trainer, which are two processes, at failpoints while the other
// process continues. The trainer trains once on every experience that it acknowledged. With
// sync_style fixed, the run ends with the same bytes as one process without a kill.
func TestKilledApart(t *testing.T) {
	for i, c := range []scenario{
		{"synchronous", []string{noEvaluation}, (*killing).endsAsOneProcess},
		{"one step off", []string{noEvaluation, "synchronizer.sync_offset=1"}, (*killing).endsAsOneProcess},
		{"fully asynchronous", []string{noEvaluation, "synchronizer.sync_style=fully_async"}, (*killing).eachOnce},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newKilling(t, c, 200+i)
			explorer := &side{killing: s, overrides: exploring}
			trainer := &side{killing: s, overrides: training}
			explorer.count, trainer.count = filepath.Join(t.TempDir(), "explorer"), filepath.Join(t.TempDir(), "trainer")
			s.together(t, explorer, trainer)
			came := map[string]int64{}
			explorer.plan(t, s.rng, came)
			trainer.plan(t, s.rng, came)
			for _, name := range failpoint.Names() {
				if strings.HasPrefix(name, "remote.") && came[name] == 0 {
					t.Errorf("neither process reaches failpoint %s", name)
				}
			}
			for s.together(t, explorer, trainer); len(explorer.rules)+len(trainer.rules) > 0 && !testing.Short(); {
				s.together(t, explorer, trainer)
			}
			t.Logf("%d kills in %d runs", s.kills, s.runs)
		})
	}
}

// side is one of two processes of a run.
type side struct {
	*killing
	overrides []string
	count     string           // file in which the process counts its hits; "" after the counting run
	rules     []string         // of the kills to come
	killed    func(*testing.T) // called after a kill, before the next start; may be nil
	process   *process
	ended     bool
}

// begin starts the process with the next rule, and sends an event when the process ends.
func (d *side) begin(t *testing.T, ended chan<- event) {
	t.Helper()
	env := []string{failpoint.Variable + "=" + rolling}
	switch {
	case d.count != "":
		env = append(env, childHits+"="+d.count)
	case len(d.rules) > 0:
		env[0] = failpoint.Variable + "=" + d.rules[0] + ";" + rolling
		d.rules = d.rules[1:]
	}
	c := d.p.start(t, env, append(d.settings(d.p), d.overrides...)...)
	d.process = c
	go func() { ended <- event{d, <-c.done} }()
}

// plan draws rules from the failpoints that the process reached in the counting run, and adds its
// hits to came.
func (d *side) plan(t *testing.T, rng *rand.Rand, came map[string]int64) {
	t.Helper()
	var hits map[string]int64
	if err := json.Unmarshal([]byte(read(t, d.count)), &hits); err != nil {
		t.Fatal(err)
	}
	d.count = ""
	for i, name := range slices.Sorted(maps.Keys(hits)) {
		n := hits[name]
		came[name] += n
		if n > 0 && ((i+d.number)%every(8, 8, 4) == 0 || strings.HasPrefix(name, "remote.") && !testing.Short()) {
			d.rules = append(d.rules, fmt.Sprintf("%s=kill@%d", name, 1+rng.Int64N(min(n, 20))))
		}
	}
	rng.Shuffle(len(d.rules), func(i, j int) { d.rules[i], d.rules[j] = d.rules[j], d.rules[i] })
}

// event says that the process of a side has ended.
type event struct {
	side *side
	err  error
}

// after handles the end of the process: it starts the process again after a kill.
func (d *side) after(t *testing.T, err error, ended chan<- event) {
	t.Helper()
	switch {
	case err == nil:
		d.ended = true
		return
	case !wasKilled(err):
		t.Fatalf("%v: %v\n%s", d.overrides, err, &d.process.output)
	}
	d.kills++
	if d.killed != nil {
		d.killed(t)
	}
	d.begin(t, ended)
}

// together runs all sides to their ends and checks the run.
func (s *killing) together(t *testing.T, sides ...*side) {
	t.Helper()
	ended := make(chan event, len(sides))
	for _, d := range sides {
		d.ended = false
		d.begin(t, ended)
	}
	for slices.ContainsFunc(sides, func(d *side) bool { return !d.ended }) {
		e := <-ended
		e.side.after(t, e.err, ended)
	}
	s.done(t)
}

// endsAsOneProcess checks that checkpoint and metrics equal those of one process.
func (s *killing) endsAsOneProcess(t *testing.T) {
	t.Helper()
	s.endsAsWhole(t)
	if fmt.Sprint(s.p.consumed(t)) != fmt.Sprint(s.whole.consumed(t)) {
		t.Error("the experiences of the batches differ")
	}
}
