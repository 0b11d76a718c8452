package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// evaluated is the record of an evaluation of 200 rows, so many seconds after the minute.
func evaluated(step, second int, right float64) string {
	return fmt.Sprintf(`{"step":%d,"role":"explorer","time":"2026-01-02T15:04:%02d.000Z","metrics":{"eval/sums/accuracy/mean@1":%g,`+
		`"eval/sums/finished_task_count":200}}`, step, second, right)
}

// game is the record of an evaluation that measures more than who has won.
func game(second int, won float64) string {
	return fmt.Sprintf(`{"step":%d,"role":"explorer","time":"2026-01-02T15:04:%02d.000Z","metrics":{"eval/games/branch_count/mean@2":0,`+
		`"eval/games/reward/mean@2":%g,"eval/games/turns/mean@2":3}}`, second, second, won)
}

func TestHeadline(t *testing.T) {
	for _, test := range []struct {
		name, want string
		lines      []string
	}{
		{"an evaluation", "sums/accuracy: 0.33 → 0.87 on 200 rows in 30 s.", []string{evaluated(0, 0, .33), evaluated(8, 30, .87)}},
		{"one that fell", "sums/accuracy: 0.33 → 0.29, best 0.46 at step 4 on 200 rows in 20 s.",
			[]string{evaluated(0, 0, .33), evaluated(4, 10, .46), evaluated(8, 20, .29)}},
		{"a game", "games/reward: 0.25 → 0.5 in 9.0 s.", []string{game(0, .25), game(9, .5)}},
		{"a reward", "rollout/reward: 0.25 → 0.5 in 1.0 s.", []string{explored(1, "0.25", "[]"), explored(2, "0.5", "[]")}},
		{"a loss", "actor/final_loss: 2.5 → 1 in 0.0 s.", []string{
			`{"step":1,"role":"trainer","time":"2026-01-02T15:03:00.000Z","metrics":{"actor/final_loss":2.5}}`,
			`{"step":2,"role":"trainer","time":"2026-01-02T15:03:00.000Z","metrics":{"actor/final_loss":1}}`,
		}},
		{"nothing", "", []string{`{"step":1,"role":"trainer","time":"2026-01-02T15:03:00.000Z","metrics":{"time/train_step":4}}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			writeStage(t, filepath.Join(dir, "monitor"), append(test.lines, "")...)
			p, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if p.Headline != test.want {
				t.Errorf("%q, want %q", p.Headline, test.want)
			}
		})
	}
}

// The page says where the best weights are, also after the evaluations have fallen.
func TestPageNamesTheBestWeights(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	writeStage(t, filepath.Join(dir, "rl", "monitor"), evaluated(0, 0, .33), evaluated(4, 10, .46), evaluated(8, 20, .29), "")
	best := `{"metric":"eval/sums/accuracy/mean@1","evaluations":[{"version":4,"value":0.46},{"version":8,"value":0.29}]}`
	stage := filepath.Join(dir, "rl")
	if err := os.WriteFile(filepath.Join(stage, rundir.BestFile), []byte(best), 0o644); err != nil {
		t.Fatal(err)
	}
	path := rundir.Checkpoint(stage, 4)
	for _, want := range [][]string{nil, {"run, step 4, sums/accuracy 0.46: " + path}} {
		p, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Weights, want) {
			t.Errorf("the page says %q, want %q", p.Weights, want)
		}
		if err := durable.WriteDir(path, durable.Seal); err != nil {
			t.Fatal(err)
		}
	}
}

// The page of a sweep begins with the best run and one table; all else but one chart is folded.
func TestPageOfASweep(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for a, algorithm := range []string{"grpo", "maxrl", "cispo"} {
		for seed := range 4 {
			dir := filepath.Join(root, fmt.Sprintf("own_algorithm_type_%s_lr_2e-4_seed%d", algorithm, seed))
			writeStage(t, filepath.Join(dir, "monitor"), explored(1, "0.1", `[{"prompt":"1+1=?","response":"3","reward":0}]`), evaluated(0, 0, .25),
				evaluated(8, 30, .5+.125*float64(a%2)), "")
			settings(t, dir, fmt.Sprintf("seed: %d\nalgorithm: {algorithm_type: %s, optimizer: {lr: 2e-4}}\n", seed, algorithm))
			sweep := `{"name":"own","varied":["algorithm.algorithm_type","algorithm.optimizer.lr","seed"]}`
			if err := os.WriteFile(filepath.Join(dir, rundir.SweepFile), []byte(sweep), 0o644); err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, dir)
		}
	}
	page := pageOf(t, dirs...)
	wantAll(t, page, "maxrl is best: sums/accuracy 0.625 ± 0; the next, grpo, differs by -0.125 ± 0, which 4 seeds do not tell from "+
		"chance. 12 runs in 30 s.",
		`class="best" title="own_algorithm_type_maxrl_lr_2e-4">maxrl<td class="set">maxrl<td class="n">0.25<td class="n">0.625 ± 0`)
	open := page
	for strings.Contains(open, "<details>") {
		begin := strings.LastIndex(open, "<details>")
		end := strings.Index(open[begin:], "</details>")
		open = open[:begin] + open[begin+end+len("</details>"):]
	}
	if n := strings.Count(open, "<figure>"); n != 1 {
		t.Errorf("%d charts are open, want 1", n)
	}
	for _, long := range []string{"<pre>", "Time of", "worst and best answer"} {
		if strings.Contains(open, long) {
			t.Errorf("what is open has %q", long)
		}
	}
}
