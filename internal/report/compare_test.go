package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// The quantiles and intervals are those of scipy.stats.t, version 1.17.
func TestStudentQuantiles(t *testing.T) {
	for degrees, want := range map[int][2]float64{
		1: {12.706204736174694, 6.313751514675037}, 2: {4.302652729749462, 2.9199855803537242}, 3: {3.1824463052837078, 2.3533634348018233},
		4: {2.7764451051977934, 2.1318467863266495}, 5: {2.5705818356363146, 2.0150483733330233}, 8: {2.306004135204166, 1.8595480375308973},
		9: {2.262157162798205, 1.833112932656237}, 29: {2.045229642132703, 1.6991270265334972}, 30: {2.0422724563012378, 1.697260886593957},
		99: {1.9842169515864174, 1.6603911560169906}, 1000: {1.9623390808264083, 1.6463788172854643},
	} {
		for i, probability := range []float64{0.95, 0.9} {
			if got := studentQuantile(probability, degrees); math.Abs(got-want[i]) > 1e-9*want[i] {
				t.Errorf("%d degrees, %g: %.12g, want %.12g", degrees, probability, got, want[i])
			}
		}
	}
}

func TestInterval(t *testing.T) {
	for _, c := range []struct{ values, want []float64 }{ // mean, low, high
		{[]float64{0.1, 0.2, 0.4}, []float64{0.23333333333333336, -0.14612497002634264, 0.6127916366930094}},
		{[]float64{3, 5}, []float64{4, -8.706204736174694, 16.706204736174694}},
		{[]float64{-2.5, 0.5, 1, 9}, []float64{2, -5.822390007940931, 9.822390007940932}},
		{[]float64{0.1, 0.1, 0.1}, []float64{0.1, 0.1, 0.1}},
		{[]float64{7}, []float64{7}},
		{[]float64{-math.MaxFloat64, math.MaxFloat64}, []float64{0}}, // an infinite one is none
	} {
		v := interval(c.values)
		got := []float64{v.Mean}
		if v.Low != nil {
			got = append(got, *v.Low, *v.High)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !slices.EqualFunc(got, c.want, near) || v.N != len(c.values) {
			t.Errorf("%v: %v of %d, want %v", c.values, got, v.N, c.want)
		}
	}
}

// writeRun writes a run with a reward of each step and an evaluation of the last one, and returns its
// directory.
func writeRun(t *testing.T, root, name, settings string, evaluation float64, rewards ...float64) string {
	t.Helper()
	dir := filepath.Join(root, name)
	var lines []string
	for i, reward := range rewards {
		lines = append(lines, explored(i+1, fmt.Sprint(reward), "[]"))
	}
	const last = `{"step":%d,"role":"explorer","time":"2026-01-02T15:05:00.000Z","metrics":{"eval/held_out/accuracy/mean@1":%g}}`
	lines = append(lines, fmt.Sprintf(last, len(rewards), evaluation), "")
	writeStage(t, filepath.Join(dir, "monitor"), lines...)
	if settings != "" {
		if err := os.WriteFile(filepath.Join(dir, "monitor", rundir.SettingsFile), []byte(settings), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCompare(t *testing.T) {
	root := t.TempDir()
	slow := func(seed int, settings string, evaluation float64, rewards ...float64) string {
		return writeRun(t, root, fmt.Sprintf("slow_seed%d", seed), settings+"buffer: {total_steps: 3}\n", evaluation, rewards...)
	}
	dirs := []string{
		slow(41, "seed: 41\n", 0.1, 0, 0, 0.5),
		slow(42, "", 0.2, 0, 0, 0.25), // the default seed
		writeRun(t, root, "fast_seed41", "seed: 41\nalgorithm: {optimizer: {lr: 0.01}}\nbuffer: {total_steps: 3}\n", 0.4, 0, 0, 1),
		writeRun(t, root, "fast_seed43", "seed: 43\nalgorithm: {optimizer: {lr: 0.01}}\nbuffer: {total_steps: 3}\n", 0.8, 0, 1),
		writeRun(t, root, "old", "", 0.3, 0, 0, 0.1),
		filepath.Join(root, "none"),
	}
	if err := os.MkdirAll(dirs[5], 0o755); err != nil {
		t.Fatal(err)
	}
	parts := []byte(`{"parts":{"explorer":{"status":"finished"},"trainer":{"status":"failed","error":"disk full"}}}`)
	if err := os.WriteFile(filepath.Join(dirs[2], "monitor", rundir.AboutFile), parts, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Compare("", dirs...)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range c.Groups {
		names = append(names, fmt.Sprintf("%s %d", g.Name, len(g.Runs)))
	}
	if want := []string{"slow 2", "fast 2", "old 1"}; !slices.Equal(names, want) {
		t.Fatalf("groups %v, want %v", names, want)
	}
	if r := c.Groups[0].Runs[1]; r.Seed != "42" || r.Steps != 3 || r.Dir != dirs[1] {
		t.Errorf("run %+v", r)
	}
	if c.Metrics[0].Name != "eval/held_out/accuracy/mean@1" || c.Metrics[1].Name != "rollout/reward/mean" {
		t.Errorf("the evaluation is not first: %s, %s", c.Metrics[0].Name, c.Metrics[1].Name)
	}
	fast := c.Metrics[0].Values[1]
	if math.Abs(fast.Mean-0.6) > 1e-9 || fast.N != 2 || fast.High == nil ||
		fast.More.N != 1 || math.Abs(fast.More.Mean-0.3) > 1e-9 || fast.More.High != nil {
		t.Errorf("fast is %+v, more %+v", fast, fast.More)
	}
	if old := c.Metrics[0].Values[2]; old.More != nil { // its seed is unknown
		t.Errorf("a run without settings is paired: %+v", old.More)
	}
	want := []string{
		"without a step, so left out: " + dirs[5],
		"failed, stopped or shorter, so their final values are of an earlier step: fast_seed41 (3 of 3, failed: disk full), fast_seed43 (2 of 3)",
		"no seed of slow, so without a difference: old",
	}
	if !slices.Equal(c.Notes, want) {
		t.Errorf("notes %q, want %q", c.Notes, want)
	}
	var text, markdown bytes.Buffer
	if err := c.Print(&text); err != nil {
		t.Fatal(err)
	}
	if err := c.Markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"setting                 slow       fast  old\n", "algorithm.optimizer.lr  (default)  0.01  (default)\n",
		"eval/held_out/accuracy/mean@1  fast     2      0.6    0.6 ± 2.5    +0.3 (of 1)\n", want[1] + "\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	const row = "| `eval/held_out/accuracy/mean@1` | `fast` | 2 | 0.6 | 0.6 ± 2.5 | +0.3 (of 1) |\n"
	if !strings.Contains(markdown.String(), row) {
		t.Errorf("the Markdown lacks %q:\n%s", row, markdown.String())
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	alone, err := Compare("", writeRun(t, root, "alone", "buffer: {total_steps: 9}\n", 0, 1, 2))
	if err != nil || len(alone.Notes) != 1 || !strings.HasSuffix(alone.Notes[0], ": alone (2 of 9)") {
		t.Errorf("a run that ended early gives %+v, %v", alone, err)
	}
}

// Groups are sorted by the mean of a metric; those that are shorter come last, and those without it
// behind them.
func TestCompareBestFirst(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for name, rewards := range map[string][]float64{"a": {0, 0.1}, "b": {0, 0.9}, "c": {0, 0.5}, "short": {5}} {
		dirs = append(dirs, writeRun(t, root, name, "seed: 1\nmode: "+name+"\n", 1-rewards[len(rewards)-1], rewards...))
	}
	order := func(metric string) (names string) {
		t.Helper()
		c, err := Compare(metric, dirs...)
		if err != nil {
			t.Fatal(err)
		}
		if c.Metrics[0].Name != metric {
			t.Errorf("%s is not first but %s", metric, c.Metrics[0].Name)
		}
		for _, g := range c.Groups {
			names += g.Name + " "
		}
		if !strings.HasSuffix(c.Notes[0], ": short (1 of 2)") {
			t.Errorf("notes %q", c.Notes)
		}
		return names
	}
	if got := order("rollout/reward/mean"); got != "b c a short " {
		t.Errorf("by reward: %s", got)
	}
	if got := order("eval/held_out/accuracy/mean@1"); got != "a c b short " {
		t.Errorf("by evaluation: %s", got)
	}
	if _, err := Compare("nothing", dirs...); err == nil || !strings.Contains(err.Error(), `no run has the metric "nothing"`) {
		t.Errorf("an unknown metric gives %v", err)
	}
	if nan := math.NaN(); Better("reward", nan, 1) || !Better("reward", -1, nan) || !Better("loss", 9, nan) || Better("loss", nan, nan) {
		t.Error("NaN is better than a number, or a number is not better than NaN")
	}
	if Better("actor/final_loss", 2, 1) || !Better("eval/x/loss", 1, 2) || !Better("rollout/reward/mean", 2, 1) {
		t.Error("a greater loss is better, or a smaller reward")
	}
	for _, metric := range []string{"eval/x/loss/mean@4", "eval/x/perplexity", "eval/x/failed_run_count"} { // as for trainer.keep_best
		if !Better(metric, 1, 2) {
			t.Errorf("more of %s is better", metric)
		}
	}
}

// The result of a run that has diverged is not its last finite value.
func TestCompareShowsARewardOnceThatIsTheAccuracy(t *testing.T) {
	row := func(name string, last float64) ComparedMetric {
		return ComparedMetric{Name: name, Values: []*Compared{{First: 0.5, Interval: Interval{Mean: last, N: 1}}}}
	}
	for last, shown := range map[float64]bool{0.75: false, 0.85: true} {
		c := &Comparison{Groups: []ComparedGroup{{Name: "a"}},
			Metrics: []ComparedMetric{row("eval/x/accuracy/mean@1", 0.75), row("eval/x/reward/mean@1", last)}}
		var text bytes.Buffer
		if err := c.Print(&text); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "eval/x/reward") != shown || !strings.Contains(text.String(), "eval/x/accuracy") {
			t.Errorf("accuracy 0.75 and reward %g give\n%s", last, text.String())
		}
	}
}

func TestCompareLeavesDivergedRunsOut(t *testing.T) {
	root := t.TempDir()
	const settings = "algorithm: {optimizer: {lr: 0.01}}\nseed: "
	dirs := []string{
		writeRun(t, root, "calm_seed1", "seed: 1\n", 0, 0, 0.5), writeRun(t, root, "calm_seed2", "seed: 2\n", 0, 0, 0.7),
		writeRun(t, root, "hot_seed1", settings+"1\n", 0, 0, 0.9), writeRun(t, root, "hot_seed2", settings+"2\n", 0, 0.95),
	}
	diverged := explored(2, `"NaN"`, "[]")
	path := filepath.Join(dirs[3], "monitor", rundir.MetricsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, diverged+"\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Compare("rollout/reward/mean", dirs...)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Groups, func(g ComparedGroup) bool { return g.Name == "hot" })
	if v := c.Metrics[0].Values[i]; v == nil || v.N != 1 || v.Mean != 0.9 {
		t.Errorf("hot is %+v", v)
	}
	if len(c.Notes) != 1 || c.Notes[0] != "not finite at the end, so left out: hot_seed2 rollout/reward/mean" {
		t.Errorf("notes %q", c.Notes)
	}
	if v, ok, err := Final(dirs[3], "rollout/reward/mean", 2); !ok || !math.IsNaN(v) || err != nil {
		t.Errorf("the final value is %v, %v, %v", v, ok, err)
	}
	if v, ok, err := Final(dirs[3], "rollout/reward/mean", 1); !ok || v != 0.95 || err != nil {
		t.Errorf("before, it is %v, %v, %v", v, ok, err)
	}
}

func TestFinal(t *testing.T) {
	var rewards []float64
	for i := range 30 {
		rewards = append(rewards, float64(i))
	}
	dir := writeRun(t, t.TempDir(), "r", "", 0.5, rewards...)
	for _, c := range []struct {
		metric string
		step   int64
		want   float64
		ok     bool
	}{
		{"rollout/reward/mean", 30, 28, true}, {"rollout/reward/mean", 10, 9, true}, {"rollout/reward/mean", 20, 18.5, true},
		{"eval/held_out/accuracy/mean@1", 30, 0.5, true}, {"eval/held_out/accuracy/mean@1", 29, 0, false}, {"nothing", 30, 0, false},
	} {
		if got, ok, err := Final(dir, c.metric, c.step); got != c.want || ok != c.ok || err != nil {
			t.Errorf("%s up to step %d: %v %v %v, want %v %v", c.metric, c.step, got, ok, err, c.want, c.ok)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	if v, ok, err := Final(link, "rollout/reward/mean", 30); v != 28 || !ok || err != nil {
		t.Errorf("through a link: %v %v %v", v, ok, err)
	}
	if metric, err := MainMetric(dir); metric != "eval/held_out/accuracy/mean@1" || err != nil {
		t.Errorf("the main metric is %q, %v", metric, err)
	}
}

// A copy of a run, or a stage, has the paths of the run that recorded it, whose directory they lack.
// A directory elsewhere that has the name of a run keeps it.
func TestRecordedNamesAreNoDifference(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for i, recorded := range []string{"first/sft", "second/sft"} {
		run, _, _ := strings.Cut(recorded, "/")
		settings := fmt.Sprintf("seed: %d\nproject: sums\nmodel: {model_path: checkpoints/sums/%s/global_step_1}\n", i, run) +
			"buffer: {explorer_input: {taskset: {path: examples/first/data.jsonl}}}\n"
		dir := writeRun(t, root, fmt.Sprint("copied", i), settings, 0.5, float64(i))
		about := fmt.Appendf(nil, `{"name":%q}`, recorded)
		if err := os.WriteFile(filepath.Join(dir, "monitor", rundir.AboutFile), about, 0o644); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	c, err := Asked{Names: []string{"a/x_seed0", "b/x_seed1"}}.Compare(dirs...)
	if err != nil || len(c.Groups) != 1 || c.Groups[0].Runs[1].Name != "b/x_seed1" || c.Groups[0].Name != "a/x_seed0, b/x_seed1" {
		t.Errorf("%+v, %v", c, err)
	}
}
