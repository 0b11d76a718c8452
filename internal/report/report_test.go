package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// writeStage writes the metrics.jsonl of a stage below dir.
func writeStage(t *testing.T, dir string, lines ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// explored is the record of an explore step.
func explored(step int, reward, samples string) string {
	return fmt.Sprintf(`{"step":%d,"role":"explorer","time":"2026-01-02T15:04:%02d.000Z","metrics":{"rollout/reward/mean":%s,`+
		`"time/explore_step":3,"time/explorer_sync_interval":1},"samples":%s}`, step, step, reward, samples)
}

func pageOf(t *testing.T, dirs ...string) string {
	t.Helper()
	p, err := Read(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantAll(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPageOfAStagedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sums")
	writeStage(t, filepath.Join(dir, "warmup", "monitor"),
		`{"step":1,"role":"trainer","time":"2026-01-02T15:03:00.000Z","metrics":{"actor/final_loss":2.5,"time/train_step":4}}`, "")
	writeStage(t, filepath.Join(dir, "rl", "monitor"),
		explored(1, "0.25", `[{"prompt":"1+1=?","response":"<script>3</script>\n\u001b[31m\u202e","reward":0}]`),
		explored(2, `"NaN"`, `[]`),
		explored(3, "0.75", `[{"prompt":"2+2=?","response":"4","reward":1}]`), `{"step":4,"role":`) // still being written
	if err := os.WriteFile(filepath.Join(dir, "rl", "monitor", "config.yaml"), []byte("seed: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	page := pageOf(t, dir)
	wantAll(t, page, "<title>sums</title>", "<h2>warmup</h2>", "<h2>rl</h2>", "actor/final_loss", ">2.5<", "seed: 7",
		`<td>rollout/reward/mean<td class="n">0.25<td class="n">0.75`, "Step 1: worst and best answer<", "Step 3: worst and best answer<",
		"&lt;script&gt;3&lt;/script&gt;\n\\x1b[31m\\u202e</pre>", "<td>rollouts<td class=\"n\">9.0 s<td class=\"n\">75 %")
	if strings.Index(page, "<h2>warmup</h2>") > strings.Index(page, "<h2>rl</h2>") {
		t.Error("the stage that ran first is not first")
	}
	if strings.Contains(page, "<script") || strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("an answer of the model is part of the page's HTML")
	}
	path := filepath.Join(dir, File)
	if p, err := Read(dir); err != nil {
		t.Fatal(err)
	} else if err := p.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != page {
		t.Errorf("%s is not the page, %v", path, err)
	}
}

func TestPageOfSeveralRuns(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for seed, rewards := range [][]string{{"0", "1"}, {"0.5", "2"}} {
		dir := filepath.Join(root, fmt.Sprint(seed), "sums")
		writeStage(t, filepath.Join(dir, "monitor"), explored(1, rewards[0], "[]"), explored(2, rewards[1], "[]"), "")
		dirs = append(dirs, dir)
	}
	wantAll(t, pageOf(t, dirs...), "<title>sums (2 runs)</title>", "curves are means of 2 runs",
		`<td class="n">0.25 ± 0.35<td class="n">1.5 ± 0.71<td class="n">2`,
		`class="band c0 d0"`, `class="pale c0 d0"`)
}

func TestNoRun(t *testing.T) {
	empty := t.TempDir()
	for dir, want := range map[string]string{empty: "no records in a metrics.jsonl", filepath.Join(empty, "nowhere"): "no run in "} {
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A directory of several runs is none of them.
func TestSeveralRunsBelowADirectory(t *testing.T) {
	project := filepath.Join(t.TempDir(), "project")
	for _, name := range []string{"b", "a/warmup", "a/rl"} {
		home := filepath.Join(project, name, "monitor")
		writeStage(t, home, explored(1, "0.5", "[]"), "")
		if err := os.WriteFile(filepath.Join(home, rundir.AboutFile), []byte(`{"name":"`+name+`"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := project + " has 2 runs below it: give the directories of the runs, such as " + filepath.Join(project, "a")
	if _, err := Read(project); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if _, err := Compare("", project); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	pageOf(t, filepath.Join(project, "a"), filepath.Join(project, "b"))
}

// TestChartStaysInItsFrame draws curves that are hard to scale.
func TestChartStaysInItsFrame(t *testing.T) {
	long := make([]point, 5001)
	huge := make([]point, len(long))
	for i := range long {
		long[i] = point{float64(i), math.Sin(float64(i))}
		huge[i] = point{float64(i), 1.5e308}
	}
	for name, runs := range map[string][][]point{
		"one value":    {{{3, 0}}},
		"constant":     {{{1, 1e9}, {2, 1e9}}},
		"tiny":         {{{1, 1e-12}, {2, 3e-12}}},
		"huge":         {{{1, -1e300}, {2, 1e300}}},
		"largest":      {{{1, -math.MaxFloat64}, {2, math.MaxFloat64}}, {{1, math.MaxFloat64}, {2, -1e308}}},
		"one largest":  {{{1, math.MaxFloat64}}},
		"long, huge":   {huge},
		"long":         {long},
		"several runs": {{{1, 0}, {2, 5}}, {{1, 1}, {2, 7}}, nil},
		"other steps":  {{{1, 0}, {2, 5}}, {{3, 1}, {4, 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := chart{Title: `"<`, Series: []series{{"m", 0, runs}}}
			frame, ok := around([]curves{c.Series[0].curves()})
			if !ok {
				t.Fatal("no curve")
			}
			for _, r := range runs {
				for _, p := range thin(r) {
					if x, y := frame.at(p); x < left || x > width-right || y < top || y > height-bottom {
						t.Errorf("point %v is drawn at %g, %g", p, x, y)
					}
				}
			}
			if n := len(thin(runs[0])); n > most {
				t.Errorf("%d points", n)
			}
			svg := string(c.SVG())
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || !strings.Contains(svg, `aria-label="&#34;&lt;"`) {
				t.Error(svg)
			}
		})
	}
}

// A stage keeps its name, whatever it contains.
func TestNamesOfStages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sums")
	for second, path := range []string{"a_monitor/monitor", "monitor/monitor", "monitor_b/monitor/trainer", "monitor/explorer0"} {
		writeStage(t, filepath.Join(dir, path), explored(second+1, "1", "[]"), "")
	}
	r, err := read(dir, rundir.ReadTable, isShown)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range r.stages {
		names = append(names, s.name)
	}
	if want := []string{"a_monitor", "monitor", "monitor_b", ""}; !slices.Equal(names, want) {
		t.Errorf("stages %q, want %q", names, want)
	}
}

// Of several explorers the page has the mean, also of the largest numbers.
func TestMeansOfTheLargestNumbers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sums")
	for _, explorer := range []string{"a", "b"} {
		writeStage(t, filepath.Join(dir, "monitor", explorer), explored(1, "1.5e308", "[]"), "")
	}
	r, err := read(dir, rundir.ReadTable, isShown)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.stages[0].points("rollout/reward/mean"); !slices.Equal(got, []point{{1, 1.5e308}}) {
		t.Error(got)
	}
	if got := value([]float64{-1e308, 1e308}); got != "0 ± 1.4e+308" {
		t.Error(got)
	}
}

// Long curves are drawn as means of neighbours at the last of their steps; short ones as they are.
func TestLongCurvesAreThinned(t *testing.T) {
	line := func(n int) (p []point) {
		for i := range n {
			p = append(p, point{float64(i), float64(2 * i)})
		}
		return p
	}
	if got := thin(line(most)); !slices.Equal(got, line(most)) {
		t.Errorf("%d points became %d: %v…", most, len(got), got[:3])
	}
	got := thin(line(2*most + 2)) // in threes, and one
	if n := len(got); n != 268 || got[0] != (point{2, 2}) || got[1] != (point{5, 8}) || got[n-1] != (point{2*most + 1, 4*most + 2}) {
		t.Errorf("%d points became %d: %v … %v", 2*most+2, n, got[:2], got[n-1])
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []float64
	}{{0, 1, []float64{0, .2, .4, .6, .8, 1}}, {0, 120, []float64{0, 20, 40, 60, 80, 100, 120}}, {-3, 5, []float64{-2, 0, 2, 4}}} {
		got := ticks(c.lo, c.hi)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("ticks of %g to %g are %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
}

// settings writes the settings of a run beside its metrics.
func settings(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "monitor", "config.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPageComparesGroupsOfRuns(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for _, r := range []struct{ name, reward, settings string }{
		{"grpo_seed0", "0.25", "name: grpo_seed0\nmodel:\n  model_path: runs/grpo_seed0/warmup\n"},
		{"grpo_seed1", "0.75", "name: grpo_seed1\nseed: 1\nmodel:\n  model_path: runs/grpo_seed1/warmup\n"},
		{"rloo_seed0", "0.5", "name: rloo_seed0\nalgorithm:\n  algorithm_type: rloo\nmodel:\n  model_path: runs/rloo_seed0/warmup\n"},
		{"rloo_seed1", "0.5", "name: rloo_seed1\nseed: 1\nalgorithm:\n  algorithm_type: rloo\nmodel:\n  model_path: runs/rloo_seed1/warmup\n"},
	} {
		dir := filepath.Join(root, r.name)
		writeStage(t, filepath.Join(dir, "monitor"), explored(1, r.reward, "[]"), explored(2, r.reward, "[]"), "")
		settings(t, dir, "project: runs\n"+r.settings)
		dirs = append(dirs, dir)
	}
	writeStage(t, filepath.Join(dirs[2], "monitor", "trainer"), // only this group has a loss
		`{"step":1,"role":"trainer","time":"2026-01-02T15:03:00.000Z","metrics":{"actor/final_loss":2.5}}`, "")
	page := pageOf(t, dirs...)
	wantAll(t, page, `Loss <span><svg class="key" `, `<polyline class="c1 d0" points="0,4 22,4"/></svg> rloo</span></figcaption>`)
	wantAll(t, page, "<title>grpo (2 runs), rloo (2 runs)</title>", `class="band c0 d0"`, `class="band c1 d0"`, `</svg> rloo</span>`,
		`<td>rollout/reward/mean<td>grpo<td class="n">0.5 ± 0.35<td`, `<td>rollout/reward/mean<td>rloo<td class="n">0.5 ± 0<td`,
		`<td>algorithm.algorithm_type<td>(default)<td>rloo`)
	if strings.Contains(page, "<td>model.model_path") || strings.Contains(page, "<td>seed") {
		t.Error("the page says that the groups differ in their seeds or directories")
	}
}

func TestMetricsWithTheSameValuesAreOneCurve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sums")
	const record = `{"step":%d,"role":"explorer","time":"2026-01-02T15:04:00.000Z",` +
		`"metrics":{"eval/new/accuracy/mean@1":%g,"eval/new/reward/mean@1":%g}}`
	writeStage(t, filepath.Join(dir, "monitor"), fmt.Sprintf(record, 0, 0.3, 0.3), fmt.Sprintf(record, 4, 0.7, 0.7), "")
	page := pageOf(t, dir)
	if n := strings.Count(page, "<polyline"); n != 1 {
		t.Errorf("the page draws %d curves, want 1: both metrics have the same values", n)
	}
	wantAll(t, page, "Evaluation: new/accuracy/mean@1, new/reward/mean@1<")
}

func TestNumbersOnThePageAreShort(t *testing.T) {
	third, sum := 1.0/3, 0.1+0.2
	if got := value([]float64{sum, sum, 0.3}); got != "0.3 ± 0" {
		t.Errorf("the deviation of rounding alone is %q, want 0", got)
	}
	dir := filepath.Join(t.TempDir(), "sums")
	writeStage(t, filepath.Join(dir, "monitor"),
		explored(1, "0.5", fmt.Sprintf(`[{"prompt":"1+1=?","response":"3","reward":%v}]`, third)), "")
	wantAll(t, pageOf(t, dir), "reward 0.3333<")
}
