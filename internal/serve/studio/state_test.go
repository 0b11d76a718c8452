package studio

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

// The state of a run comes from what its processes left, and from whether they live.
func TestStates(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command(os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	holder := func(pid int, host string, since time.Time) string {
		text, err := json.Marshal(durable.Held{PID: pid, Host: host, Since: since})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	lives, died := holder(os.Getpid(), host, now), holder(dead.Process.Pid, host, now)
	end := func(status, why string, at time.Time) string {
		return fmt.Sprintf(`{"status":%q,"error":%q,"time":%q}`, status, why, at.Format(time.RFC3339Nano))
	}
	later := now.Add(time.Second)
	for name, c := range map[string]struct {
		trainer, explorer string // holders
		ends              string // of about.json
		file              string // that is also there
		old               bool
		state             State
		why               string
	}{
		"runs":                 {trainer: lives, explorer: lives, state: Running},
		"runs again":           {trainer: lives, ends: `"trainer":` + end("failed", "old", now.Add(-time.Hour)), state: Running},
		"one of two runs":      {trainer: lives, explorer: died, state: Running},
		"ended, process lives": {trainer: lives, ends: `"trainer":` + end("finished", "", later), state: Finished},
		"failed":               {trainer: died, ends: `"trainer":` + end("failed", "no room", later), state: Failed, why: "no room"},
		"one of two failed": {trainer: died, explorer: died, ends: `"trainer":` + end("finished", "", later) + `,"explorer":` +
			end("failed", "lost", later), state: Failed, why: "lost"},
		"stopped":               {trainer: died, ends: `"trainer":` + end("stopped", "", later), state: Stopped},
		"killed":                {trainer: died, ends: `"trainer":` + end("", "", now), state: Killed},
		"one of two killed":     {ends: `"trainer":` + end("", "", now) + `,"explorer":` + end("finished", "", later), state: Killed},
		"of an earlier version": {trainer: died, state: Killed},
		"earlier, its stage is": {trainer: died, file: "stage_done.json", state: Finished},
		"another host works":    {trainer: holder(1, "elsewhere", now), state: Running},
		"another host is quiet": {trainer: holder(1, "elsewhere", now), old: true, state: Unknown},
		"number of a process":   {trainer: holder(os.Getpid(), host, now.Add(-1000*time.Hour)), state: Killed},
		"copied":                {state: Unknown},
		"waits":                 {trainer: lives, ends: `"trainer":{"for":"explorer"}`, state: Waiting, why: "explorer"},
		"one of two waits":      {trainer: lives, explorer: lives, ends: `"trainer":{"for":"explorer"}`, state: Running},
		"died while it waited":  {trainer: died, ends: `"trainer":{"for":"explorer"}`, state: Killed},
		"both wait": {
			trainer: lives, explorer: lives, ends: `"trainer":{"for":"explorer"},"explorer":{"for":"trainer"}`, state: Waiting,
			why: "explorer, trainer",
		},
		"half a holder":      {trainer: "{", state: Unknown},
		"sink holds its own": {file: ".holder_sink_x.json", state: Unknown},
	} {
		dir, s := site(t, "")
		path := put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
		for part, text := range map[string]string{"trainer": c.trainer, "explorer": c.explorer} {
			if text != "" {
				put(t, dir, "r/.holder_"+part+".json", text)
			}
		}
		if c.ends != "" {
			put(t, dir, "r/monitor/about.json", `{"name":"r","parts":{`+c.ends+`}}`)
		}
		if c.file != "" {
			put(t, dir, "r/"+c.file, lives)
		}
		if c.old {
			if err := os.Chtimes(path, now.Add(-time.Hour), now.Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if r := got[listed](t, s, "runs").Runs; len(r) != 1 || r[0].State != c.state || r[0].Error+r[0].Waiting != c.why {
			t.Errorf("%s: %+v, want %s %q", name, r, c.state, c.why)
		}
	}
}

// The list tells a run's numbers from a part of its files.
func TestSummaries(t *testing.T) {
	dir, s := site(t, "")
	var text string
	for step := 1; step <= 200; step++ {
		text += line(step, "explorer", fmt.Sprintf(`"rollout/reward/mean":%d`, step)) + line(step, "trainer", `"actor/final_loss":1`)
	}
	path := put(t, dir, "p/one/monitor/metrics.jsonl", text)
	put(t, dir, "p/one/monitor/about.json", `{"project":"p","group":"g","name":"one","began":"2001-09-09T01:46:40Z","total_steps":300}`)
	put(t, dir, "p/one/monitor/config.yaml", "mode: train\nalgorithm: {algorithm_type: x}\nmodel: {model_path: m}\n")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "p/one/.holder_trainer.json", fmt.Sprintf(`{"pid":%d,"host":%q,"since":%q}`, os.Getpid(), host,
		time.Now().Format(time.RFC3339)))
	put(t, dir, "p/staged/warmup/monitor/metrics.jsonl", line(2, "trainer", `"actor/final_loss":0.5`))
	put(t, dir, "p/staged/warmup/monitor/config.yaml", "mode: train\n")
	put(t, dir, "p/staged/rl/monitor/about.json", `{"project":"p","name":"staged/rl"}`)
	if err := os.MkdirAll(filepath.Join(dir, "p/staged/rl/trace"), 0o755); err != nil {
		t.Fatal(err)
	}
	byID := map[string]Run{}
	for _, r := range got[listed](t, s, "runs").Runs {
		byID[r.ID] = r
	}
	one := byID["p/one"]
	if one.Project != "p" || one.Group != "g" || one.Name != "one" || one.Mode != "train" || one.Algorithm != "x" || one.Model != "m" ||
		one.Step != 200 || one.TotalSteps != 300 || *one.Reward != 200 || one.RewardName != "rollout/reward/mean" ||
		len(one.Spark) != sparkLen ||
		one.Spark[0] != 1 || one.Began != 1e12 || *one.SecondsLeft != 100 || one.Traced {
		t.Errorf("%+v", one)
	}
	if w := byID["p/staged/warmup"]; w.Name != "staged" || w.Stage != "warmup" || w.RewardName != "actor/final_loss" || w.Step != 2 ||
		w.Algorithm == "" || w.Began != 1e12+2000 {
		t.Errorf("%+v", w)
	}
	if r := byID["p/staged/rl"]; r.Name != "staged" || r.Stage != "rl" || !r.Traced || r.Reward != nil || r.Spark == nil {
		t.Errorf("%+v", r)
	}
	add(t, path, line(201, "explorer", `"rollout/reward/mean":7`)+line(201, "trainer", `"actor/final_loss":1`))
	if r := got[Run](t, s, "runs/p%2Fone"); r.Step != 201 || *r.Reward != 7 || r.Spark[len(r.Spark)-1] != 7 || r.Spark[0] != 1 {
		t.Errorf("%+v", r)
	}
	put(t, dir, "p/one/monitor/about.json", `{"name":"one","total_steps":300,"parts":{"trainer":{"for":"explorer"}}}`)
	if r := got[Run](t, s, "runs/p%2Fone"); r.State != Waiting || r.SecondsLeft == nil || *r.SecondsLeft != 99 {
		t.Errorf("a run that waits: %+v", r)
	}
}

// The directory of the studio may be a run itself.
func TestTheDirectoryIsARun(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	if r := got[listed](t, s, "runs").Runs; len(r) != 1 || r[0].ID != "~" {
		t.Errorf("%+v", r)
	}
	if names := got[struct{ Names []string }](t, s, "runs/~/names").Names; len(names) != 1 {
		t.Errorf("%q", names)
	}
}

// A pause between two processes of the trainer is no part of the time left.
func TestPausesAreNoPartOfTheTimeLeft(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "metrics.jsonl", line(1, "trainer", `"a":1`)+line(2, "trainer", `"a":1`)+line(1000, "explorer", `"a":1`)+
		line(1002, "trainer", `"a":1`)) // line writes a step that ends as many seconds after the first of all
	resumed := time.UnixMilli(1e12 + 999_000)
	for want, starts := range map[float64][]time.Time{1000: nil, 4000. / 1001: {time.UnixMilli(1e12), resumed}} {
		tail, err := readTail(dir, starts, nil)
		if err != nil || math.Abs(tail.pace-want) > 1e-9 {
			t.Errorf("with the starts %v: %g ms a step, %v; want %g", starts, tail.pace, err, want)
		}
	}
}

// Of a long file the list reads a part.
func TestSparklinesOfLongFiles(t *testing.T) {
	dir := t.TempDir()
	var text []byte
	pad := fmt.Sprintf(`"pad":%q`, make([]byte, 1000))
	for step := 1; len(text) < 2*sparkLen*sparkRead; step++ {
		text = append(text, line(step, "explorer", fmt.Sprintf(`"rollout/reward/mean":%d`, step))...)
		text = append(text, `{"step":1,"role":"explorer",`+pad+"}\n"...)
	}
	put(t, dir, "metrics.jsonl", string(text))
	tail, err := readTail(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(tail.spark); i++ {
		if tail.spark[i] <= tail.spark[i-1] {
			t.Errorf("value %d is %g, after %g", i, tail.spark[i], tail.spark[i-1])
		}
	}
	if n := len(tail.spark); n != sparkLen || tail.spark[0] > 20 || tail.spark[n-1] != float64(tail.explored) {
		t.Errorf("%d values from %g to %g, the last step is %d", n, tail.spark[0], tail.spark[n-1], tail.explored)
	}
}

// A file in the place of another has a sparkline of its own.
func TestSparklineOfAnotherFile(t *testing.T) {
	dir := t.TempDir()
	records := func(value int) (text string) {
		for step := range 100 {
			text += line(step, "explorer", fmt.Sprintf(`"rollout/reward/mean":%d`, value))
		}
		return text
	}
	put(t, dir, "metrics.jsonl", records(1))
	before, err := readTail(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(put(t, dir, "other", records(2)), filepath.Join(dir, "metrics.jsonl")); err != nil {
		t.Fatal(err)
	}
	if after, err := readTail(dir, nil, before); err != nil || after.spark[0] != 2 {
		t.Errorf("%v, %v", after.spark, err)
	}
}

// A page that follows one run asks for it and its stages alone.
func TestRunsBelow(t *testing.T) {
	dir, s := site(t, "")
	for _, id := range []string{"p/a/one", "p/a/two", "p/ab", "q"} {
		put(t, dir, id+"/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	}
	for below, want := range map[string]string{
		"p/a": "p/a/one p/a/two", "p/ab": "p/ab", "p": "p/a/one p/a/two p/ab", "../p": "", "": "p/a/one p/a/two p/ab q",
	} {
		var ids []string
		for _, run := range got[listed](t, s, "runs?below="+url.QueryEscape(below)).Runs {
			ids = append(ids, run.ID)
		}
		slices.Sort(ids)
		if found := strings.Join(ids, " "); found != want {
			t.Errorf("below %q: %s", below, found)
		}
	}
}

// A file that a resume has cut back since its size was read has no lines there, which is no damage.
func TestLinesOfAShorterFile(t *testing.T) {
	f, err := os.Open(put(t, t.TempDir(), "metrics.jsonl", "one\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if lines, _, err := new(tail).read(f, 100, 200, nil); lines != 0 || err != nil {
		t.Errorf("%d lines, %v", lines, err)
	}
}
