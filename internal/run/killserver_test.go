//go:build unix

package run_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// behind is a run whose experiences pass through a server of the test's own.
type behind struct {
	*killing
	server *server.Server
	points []string // failpoints of that kind of server
	struck int      // kills of the server during the run
}

// A run whose experiences pass through a server ends like a run in memory. The test kills the run
// at the failpoints of its requests and at others, the server during the run, and both in turn.
func TestKilledWithAServer(t *testing.T) {
	trinitytest.Long(t, "starts and kills servers", recovering...)
	for i, c := range []struct {
		name, storage string
		start         func(*testing.T) *server.Server
		points        []string
		remains       func(project, *testing.T, string) []*trinity.Experience
	}{
		{"PostgreSQL", "sql", server.Postgres, []string{"database.commit", "database.committed"}, project.stored},
		{"MariaDB", "sql", server.MariaDB, []string{"database.commit", "database.committed"}, project.stored},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			on := c.start(t)
			for j, style := range []scenario{
				{"in step", []string{"synchronizer.sync_offset=1"}, (*killing).sameAsWhole},
				{"fully asynchronous", []string{"synchronizer.sync_style=fully_async"}, (*killing).eachOnce},
			} {
				t.Run(style.name, func(t *testing.T) { // one after the other: they kill the server
					s := newKilling(t, style, 300+10*i+j)
					store := fmt.Sprintf("buffer.trainer_input.experience_buffer={storage_type: %s, path: '%s', max_retry_times: 60}", c.storage, on.URL)
					s.overrides = append(s.overrides, store)
					s.remains = func(t *testing.T) []*trinity.Experience { return c.remains(s.p, t, on.URL) }
					b := behind{killing: s, server: on, points: c.points}
					b.killAll(t)
				})
			}
		})
	}
}

// killAll kills the run at each of the server's failpoints and at random ones. It kills the server
// between two starts of the run, and during the run.
func (b *behind) killAll(t *testing.T) {
	t.Helper()
	for range 8 / every(8, 8, 8) {
		for i, rule := range b.plan(t) {
			if i == 2 {
				b.server.Kill(t)
				b.server.Start(t)
			}
			b.once(t, rule)
		}
		b.restless(t, 2)
	}
	t.Logf("%d kills in %d runs, and %d of the server while it ran", b.kills, b.runs, b.struck)
}

// plan counts the hits in a run without a kill. It draws a kill at each failpoint of the server,
// one at a random failpoint and one at a random time.
func (b *behind) plan(t *testing.T) (rules []string) {
	t.Helper()
	counts := filepath.Join(t.TempDir(), "hits.json")
	b.p.start(t, []string{childHits + "=" + counts, failpoint.Variable + "=" + rolling}, b.settings(b.p)...).finish(t)
	b.done(t)
	var hits map[string]int64
	if err := json.Unmarshal([]byte(read(t, counts)), &hits); err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for _, n := range hits {
		all += n
	}
	for _, name := range b.points {
		if hits[name] == 0 {
			t.Fatalf("no run reaches failpoint %s", name)
		}
		rules = append(rules, fmt.Sprintf("%s=kill@%d", name, 1+b.rng.Int64N((hits[name]+1)/2)))
	}
	rules = append(rules, fmt.Sprintf("*=kill@%d", 1+b.rng.Int64N((all+1)/2)), "")
	b.rng.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
	return rules
}

// restless runs to the end while it kills and restarts the server.
func (b *behind) restless(t *testing.T, kills int) {
	t.Helper()
	c := b.p.start(t, nil, b.settings(b.p)...)
	for range kills {
		select {
		case err := <-c.done:
			c.done <- err
		case <-time.After(time.Duration(b.rng.Float64() * float64(b.took))):
			b.server.Kill(t)
			b.server.Start(t)
			b.struck++
		}
	}
	c.finish(t)
	b.done(t)
}
