package examples

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

var update = flag.Bool("update", false, "write what was measured into the README")

// algorithmConfig is the example of an algorithm type, by its path under examples.
func algorithmConfig(algorithm string) string { return "algorithms/" + algorithm + ".yaml" }

// evaluated is the share of right replies to all questions after the last stage.
func evaluated(t *testing.T, records []trinity.Record) (sampled, greedy float64) {
	t.Helper()
	s, g := curve(records, "bench/sampled/accuracy/mean@4"), curve(records, "bench/greedy/accuracy/mean@1")
	if len(s) != 1 || len(g) != 1 {
		t.Fatalf("the last stage evaluated %d and %d times, want once", len(s), len(g))
	}
	return s[0], g[0]
}

// unchanged are the settings with which the stage learn changes no weight, and is short.
var unchanged = []string{"name=unchanged", "stages.1.algorithm.optimizer.lr=0", "stages.1.buffer.total_steps=1"}

// warmed is a tiny model after the stage that all examples of algorithms begin with.
type warmed struct {
	dir     string  // of the runs that go on from there
	mark    []byte  // says that the stage is finished, and where its model is
	sampled float64 // share of right replies
}

func warmUp(t *testing.T) *warmed {
	t.Helper()
	w := &warmed{dir: t.TempDir()}
	w.sampled, _ = evaluated(t, runExampleIn(t, w.dir, algorithmConfig("grpo"), unchanged...))
	var err error
	if w.mark, err = os.ReadFile(w.finished("unchanged")); err != nil {
		t.Fatal(err)
	}
	return w
}

// finished is where a run of that name says that it is warmed up.
func (w *warmed) finished(name string) string {
	return filepath.Join(w.dir, "trinity-examples", name, "warmup", "stage_done.json")
}

// learn runs the example of an algorithm, under a name, from the stage learn on.
func (w *warmed) learn(t *testing.T, algorithm, name string, overrides ...string) []trinity.Record {
	t.Helper()
	path := w.finished(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, w.mark, 0o644); err != nil {
		t.Fatal(err)
	}
	return runExampleIn(t, w.dir, algorithmConfig(algorithm), append(overrides, "name="+name)...)
}

// teacher is the algorithm whose example makes what others distil.
const teacher = "sft"

// algorithms are all types that there are, the teacher first.
func algorithms() []string {
	names := slices.Clone(registry.Algorithms.Names())
	at := slices.Index(names, teacher)
	return slices.Insert(slices.Delete(names, at, at+1), 0, teacher)
}

// Every algorithm type that there is has an example, of the type's name, in which it learns. All begin with the same warm-up; those that sample
// have half of the example's steps, so that all together take a minute or two.
func TestAlgorithmsLearn(t *testing.T) {
	trinitytest.Long(t, "trains with every algorithm", trained...)
	t.Chdir("..")
	model := warmUp(t)
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			if algorithm != teacher {
				t.Parallel()
			}
			text, err := os.ReadFile(filepath.Join("examples", algorithmConfig(algorithm)))
			if err != nil {
				t.Fatalf("algorithm type %s has no example in which it learns: write examples/%s", algorithm, algorithmConfig(algorithm))
			}
			var short []string
			if strings.Contains(string(text), "mode: both") {
				short = []string{"stages.1.buffer.total_steps=15"}
			}
			records := model.learn(t, algorithm, "algorithms_"+algorithm, short...)
			after, greedy := evaluated(t, records)
			t.Logf("accuracy %.3f to %.3f, greedy %.3f", model.sampled, after, greedy)
			if after < model.sampled+0.15 {
				t.Errorf("accuracy over 400 replies went from %.3f to %.3f, want 0.15 more", model.sampled, after)
			}
			if slices.Contains(preferring, algorithm) {
				heldOutPairs(t, records).check(t)
			}
		})
	}
}

// preferring are the types that learn from answers of which one is preferred, in whose examples pairs are held out.
var preferring = []string{"dpo", "kto"}

// preference is what a model makes of the held-out pairs: the share whose right answer is the likelier one, at first and after the last step, and the
// share whose right answer has gained more than the wrong one.
type preference struct{ before, after, gained float64 }

func heldOutPairs(t *testing.T, records []trinity.Record) preference {
	t.Helper()
	ranking, accuracy := curve(records, "eval/held_out/ranking_accuracy"), curve(records, "eval/held_out/accuracy_mean")
	if len(ranking) < 2 || len(accuracy) != len(ranking) {
		t.Fatalf("held-out pairs were measured %d and %d times, want twice and more", len(ranking), len(accuracy))
	}
	last := len(ranking) - 1
	return preference{ranking[0], ranking[last], accuracy[last]}
}

func (p preference) check(t *testing.T) {
	t.Helper()
	if p.after < p.before+0.25 || p.gained < 0.85 {
		t.Errorf("of the held-out pairs the right answer is the likelier one in %.2f, %.2f before, and has gained more in %.2f; want 0.25 more, and 0.85", p.after, p.before, p.gained)
	}
}

// measured is what came of one run.
type measured struct {
	records         []trinity.Record
	tens            []string // means of ten steps
	sampled, greedy float64
	wall            time.Duration
}

func measure(t *testing.T, dir, algorithm string, overrides ...string) measured {
	t.Helper()
	begin := time.Now()
	records := runExampleIn(t, dir, algorithmConfig(algorithm), overrides...)
	m := measured{records: records, wall: time.Since(begin)}
	m.sampled, m.greedy = evaluated(t, records)
	for ten := range slices.Chunk(curve(records, "rollout/accuracy/mean"), 10) {
		m.tens = append(m.tens, share(mean(ten)))
	}
	return m
}

// share writes 0.973 as .97.
func share(v float64) string { return strings.TrimPrefix(fmt.Sprintf("%.2f", v), "0") }

// TestAlgorithmsTable runs every example as a user does, with three seeds, and the controls; with -update it writes the table of
// algorithms/README.md. Seconds are of the machine that it runs on.
func TestAlgorithmsTable(t *testing.T) {
	trinitytest.TooLong(t, "trains with every algorithm, several seeds")
	t.Chdir("..")
	dirs := [3]string{t.TempDir(), t.TempDir(), t.TempDir()} // by seed
	var table strings.Builder
	table.WriteString("| algorithm | seed 0 | seed 1 | seed 2 | sampled | greedy | seconds |\n|---|---|---|---|---|---|---|\n")
	row := func(name, algorithm string, overrides ...string) (runs []measured) {
		var curves, sampled, greedy, seconds []string // by seed
		for seed, dir := range dirs {
			t.Run(fmt.Sprint(name, " seed ", seed), func(t *testing.T) {
				m := measure(t, dir, algorithm, append(overrides, fmt.Sprint("seed=", seed))...)
				runs = append(runs, m)
				tens := strings.Join(m.tens, " ")
				if tens == "" {
					tens = "–"
				}
				curves, sampled, greedy = append(curves, tens), append(sampled, share(m.sampled)), append(greedy, share(m.greedy))
				seconds = append(seconds, fmt.Sprintf("%.0f", m.wall.Seconds()))
			})
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", name, strings.Join(curves, " | "), strings.Join(sampled, " "), strings.Join(greedy, " "), strings.Join(seconds, " "))
		return runs
	}
	start := row("after the warm-up", "grpo", unchanged...)
	preferences := "| algorithm | likelier, after the warm-up | likelier, in the end | has gained more |\n|---|---|---|---|\n"
	for _, algorithm := range algorithms() {
		name := fmt.Sprintf("[%s](%s.yaml)", algorithm, algorithm)
		runs := row(name, algorithm)
		for seed, m := range runs {
			if m.sampled < start[seed].sampled+0.15 {
				t.Errorf("%s, seed %d: accuracy went from %.3f to %.3f, want 0.15 more", algorithm, seed, start[seed].sampled, m.sampled)
			}
		}
		if slices.Contains(preferring, algorithm) {
			preferences += preferenceRow(t, name, runs)
		}
	}
	for name, override := range map[string]string{
		"learning rate 0":  "stages.1.algorithm.optimizer.lr=0",
		"shuffled rewards": "stages.1.data_processor.experience_pipeline.operators=[{name: test_shuffle_rewards}]",
	} {
		for seed, m := range row("grpo, "+name, "grpo", "name=control_"+strings.ReplaceAll(name, " ", "_"), override) {
			if m.sampled > start[seed].sampled+0.1 {
				t.Errorf("%s, seed %d: accuracy rose from %.3f to %.3f, and there was nothing to learn from", name, seed, start[seed].sampled, m.sampled)
			}
		}
	}
	t.Log("\n" + table.String() + "\n" + preferences)
	if *update && !t.Failed() {
		writeTable(t, "examples/algorithms/README.md", "measured", table.String())
		writeTable(t, "examples/algorithms/README.md", "held out", preferences)
	}
}

// preferenceRow is a row of shares of held-out pairs, by seed.
func preferenceRow(t *testing.T, name string, runs []measured) string {
	var before, after, gained []string
	for _, m := range runs {
		p := heldOutPairs(t, m.records)
		p.check(t)
		before, after, gained = append(before, share(p.before)), append(after, share(p.after)), append(gained, share(p.gained))
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", name, strings.Join(before, " "), strings.Join(after, " "), strings.Join(gained, " "))
}

// writeTable puts a table in place of the one between the marks of that name of a document.
func writeTable(t *testing.T, path, name, table string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->"
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table: %q and %q", path, begin, end)
	}
	if err := os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
