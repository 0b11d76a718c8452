package studio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// comparable writes runs of two settings and two seeds, whose rewards differ by seed.
func comparable(t *testing.T, dir string) (query string) {
	t.Helper()
	for i, lr := range []string{"1e-5", "3e-5"} {
		for seed := range 2 {
			name := fmt.Sprintf("p/lr%s_seed%d", lr, seed)
			put(t, dir, name+"/monitor/config.yaml", fmt.Sprintf("project: p\nname: x\nseed: %d\nalgorithm: {optimizer: {lr: %s}}\n"+
				"monitor: {monitor_args: {wandb: {api_key: geheim%d}}}\nmodel: {model_path: models/p/lr%s_seed%d/m}\n", seed, lr, i, lr, seed))
			put(t, dir, name+"/monitor/metrics.jsonl", line(1, "explorer", `"rollout/reward/mean":0,"other":1`)+
				line(2, "explorer", fmt.Sprintf(`"rollout/reward/mean":%g,"other":%d`, float64(10*i+seed), -i)))
			query += "&run=p%2Flr" + lr + fmt.Sprint("_seed", seed)
		}
	}
	return "compare?" + query[1:]
}

// The studio and the command compare with the same code.
func TestCompare(t *testing.T) {
	dir, s := site(t, "")
	path := comparable(t, dir)
	status, text := get(t, s, "/api/v1/"+path)
	if status != 200 || strings.Contains(text, "geheim") {
		t.Errorf("%d: %s", status, text)
	}
	c := got[report.Comparison](t, s, path)
	if len(c.Groups) != 2 || c.Groups[0].Name != "lr1e-5" ||
		c.Groups[1].Runs[1].Name != "p/lr3e-5_seed1" || c.Groups[1].Runs[1].Seed != "1" {
		t.Fatalf("groups %+v", c.Groups)
	}
	if len(c.Differences) != 1 || c.Differences[0].Key != "algorithm.optimizer.lr" {
		t.Errorf("differences %+v", c.Differences)
	}
	grouped := got[struct{ Groups []report.Group }](t, s, strings.Replace(path, "compare", "groups", 1)).Groups
	if len(grouped) != 2 || grouped[0].Name != "lr1e-5" || len(grouped[0].Runs) != len(c.Groups[0].Runs) ||
		grouped[1].Runs[1] != "p/lr3e-5_seed1" {
		t.Errorf("the curves have the groups %+v", grouped)
	}
	for query, status := range map[string]int{"groups": 400, "groups?run=none": 404} {
		if got, text := get(t, s, "/api/v1/"+query); got != status {
			t.Errorf("%s: %d %s", query, got, text)
		}
	}
	v := c.Metrics[0].Values[1]
	if len(c.Metrics) != 1 || v.First != 0 || v.Mean != 10.5 || v.N != 2 || v.High == nil || v.More.Mean != 10 || *v.More.High != 10 {
		t.Errorf("metrics %+v, %+v", c.Metrics, v)
	}
	if !strings.Contains(text, `"notes":[]`) {
		t.Errorf("no list of notes: %s", text)
	}
	if c := got[report.Comparison](t, s, path+"&metric=other"); c.Metrics[0].Name != "other" || c.Groups[0].Name != "lr1e-5" {
		t.Errorf("best first: %+v", c)
	}
	for range 2 { // which the studio reads by columns: the second time from memory
		run := filepath.Join(dir, "p/lr1e-5_seed0")
		add(t, filepath.Join(run, "monitor", rundir.MetricsFile), line(99, "trainer", `"other":99,"rollout/reward/mean":3`))
		shown := got[report.Comparison](t, s, "compare?run=p/lr1e-5_seed0&run=p/lr3e-5_seed1&metric=other")
		printed, err := report.Compare("other", run, filepath.Join(dir, "p/lr3e-5_seed1"))
		if err != nil || !reflect.DeepEqual(shown.Metrics, printed.Metrics) || !reflect.DeepEqual(shown.Differences, printed.Differences) {
			t.Errorf("the studio shows %+v, the command %+v, %v", shown.Metrics, printed.Metrics, err)
		}
	}
	put(t, dir, "new/trace/x", "")
	if c := got[report.Comparison](t, s, path+"&run=new"); len(c.Notes) == 0 || c.Notes[0] != "without a step, so left out: new" {
		t.Errorf("notes %q", c.Notes)
	}
}

// Two runs of one seed are compared over the rows that both answered, which the studio reads as the command does.
func TestCompareOverRows(t *testing.T) {
	dir, s := site(t, "")
	for i, name := range []string{"p/a", "p/b"} {
		right := 4 - 2*i
		put(t, dir, name+"/monitor/config.yaml", fmt.Sprintf("seed: 1\nalgorithm: {optimizer: {lr: 1e-%d}}\n", i+3))
		put(t, dir, name+"/monitor/metrics.jsonl", line(0, "explorer", `"eval/few/accuracy/mean@1":0,"eval/model_version":0`)+
			line(4, "explorer", fmt.Sprintf(`"eval/few/accuracy/mean@1":%g,"eval/model_version":4`, float64(right)/4)))
		for step, right := range map[int64]int{0: 0, 4: right} {
			var rows []trace.Evaluated
			for row := range 4 {
				repeat, reward := int64(0), 0.0
				if row < right {
					reward = 1
				}
				rows = append(rows, trace.Evaluated{Taskset: "few", Row: int64(row), Run: &repeat, Prompt: "q", Reward: &reward,
					Parts: trace.JSON(fmt.Sprintf(`{"accuracy":%g}`, reward))})
			}
			data, err := trace.EvaluatedFile(rows)
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, fmt.Sprintf("%s/trace/evaluated/step-%d.parquet", name, step), string(data))
		}
	}
	const path = "compare?run=p%2Fa&run=p%2Fb&metric=eval/few/accuracy/mean@1"
	for _, query := range []string{path, path + "&by=best&alone=1"} {
		shown := got[report.Comparison](t, s, query)
		if of := shown.Metrics[0].Values[1].More; of == nil || of.Over != "rows" || of.N != 4 || of.Mean != -.5 || *of.High <= 0 {
			t.Errorf("%s: the difference is %+v", query, of)
		}
		best := shown.Best
		if len(best) != 2 || best[0].Run != "p/a" || best[0].Gain == nil || best[0].Gain.N != 4 || best[1].More == nil || !best[0].IsStart {
			t.Errorf("%s: best %+v", query, best)
		}
	}
	printed, err := report.Compare("eval/few/accuracy/mean@1", filepath.Join(dir, "p/a"), filepath.Join(dir, "p/b"))
	if shown := got[report.Comparison](t, s, path); err != nil || !reflect.DeepEqual(shown.Metrics, printed.Metrics) {
		t.Errorf("the studio shows %+v, the command %+v, %v", shown.Metrics, printed.Metrics, err)
	}
	outside := t.TempDir() // a link leads nowhere
	file := filepath.Join(dir, "p/a/trace/evaluated/step-4.parquet")
	if err := errors.Join(os.Rename(file, filepath.Join(outside, "x")), os.Symlink(filepath.Join(outside, "x"), file)); err != nil {
		t.Skip(err)
	}
	if shown := got[report.Comparison](t, s, path); shown.Best[1].More != nil {
		t.Errorf("it follows a link: %+v", shown.Best[1].More)
	}
}

func TestCompareRefuses(t *testing.T) {
	dir, s := site(t, "")
	path := comparable(t, dir)
	put(t, dir, "new/trace/x", "")
	put(t, dir, "torn/monitor/metrics.jsonl", line(1, "trainer", `"a":1`)+"no JSON\n")
	put(t, dir, "wide/monitor/config.yaml", strings.Repeat("#", 4<<20+1))
	put(t, dir, "wide/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	if err := os.MkdirAll(filepath.Join(dir, "pipe/monitor/metrics.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]struct {
		status int
		line   string
	}{
		"compare": {400, "run is given 0 times: name 2 to 16 runs"}, "compare?run=torn": {400, "run is given 1 times"},
		"compare?" + strings.Repeat("run=torn&", 17): {400, "run is given 17 times"},
		path + "&run=nowhere":                        {404, `there is no run \"nowhere\"`},
		path + "&run=..":                             {404, "there is no run"},
		"compare?run=new&run=new":                    {404, "no records"},
		path + "&metric=nothing":                     {400, `no run has the metric \"nothing\"`},
		path + "&run=torn":                           {500, "metrics.jsonl:2: not a record"},
		path + "&run=pipe":                           {500, "metrics.jsonl is no regular file"},
		path + "&run=wide":                           {500, "config.yaml has 4194305 bytes"},
	} {
		if status, text := get(t, s, "/api/v1/"+query); status != want.status || !strings.Contains(text, want.line) {
			t.Errorf("%s: %d: %s", query, status, text)
		}
	}
}

// A comparison takes seconds: nobody waits for that of a page which has left.
func TestCompareForNobody(t *testing.T) {
	dir, _ := site(t, "")
	path := comparable(t, dir)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	(&Server{Dir: dir}).Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/"+path, nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "canceled") {
		t.Errorf("%d: %.200s", w.Code, w.Body)
	}
}
