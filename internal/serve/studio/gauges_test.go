package studio

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// aboutTwo describes a run for gauges.
const aboutTwo = `{"id":"x","project":"p","group":"g","name":"two","began":"2026-01-01T00:00:00Z",` +
	`"parts":{"trainer":{"status":"finished","time":"2026-01-01T00:00:01Z"}}}`

// Prometheus gets the newest value of each metric of every run, whatever its name, also after a resume has
// cut the file back. The runs are told apart by their path.
func TestGauges(t *testing.T) {
	dir, s := site(t, "")
	a := put(t, dir, "p/a/monitor/metrics.jsonl",
		line(1, "explorer", `"rollout/reward/mean":0.25,"time/x":1`)+line(2, "trainer", `"actor/lr":"-Infinity","time/x":2,"actor/kl":"NaN"`)+
			line(9, "explorer", `"eval/new sums/accuracy/mean@4":1e300`))
	put(t, dir, "p/b/monitor/metrics.jsonl", line(3, "trainer", `"actor/lr":7`))
	put(t, dir, "p/b/monitor/about.json", aboutTwo)
	put(t, dir, "q/b/monitor/about.json", aboutTwo)
	put(t, dir, "q/b/monitor/metrics.jsonl", line(3, "trainer", `"actor/lr":8`))
	put(t, dir, "q/b/monitor/east/metrics.jsonl", line(4, "explorer", `"rollout/reward/mean":1`))
	put(t, dir, "q/b/monitor/west/metrics.jsonl", line(5, "explorer", `"rollout/reward/mean":2`))
	put(t, dir, "q/<b>\"/monitor/metrics.jsonl", line(1, `x\"\n`, `"x/y":1,"x y":2`))
	page := func() string {
		t.Helper()
		status, text := get(t, s, "/metrics")
		if status != http.StatusOK {
			t.Fatal(status, text)
		}
		return text
	}
	want := func(text string, all ...string) {
		t.Helper()
		for _, line := range all {
			if strings.Count(text, "\n"+line+"\n") != 1 {
				t.Errorf("want one %q in\n%s", line, text)
			}
		}
	}
	const (
		ofA = `{project="Trinity-RFT",run="a",group="",id="p/a"`
		ofB = `{project="p",run="two",group="g",id="p/b"`
		ofC = `{project="p",run="two",group="g",id="q/b"`
	)
	text := page()
	want(text, "trinity_rollout_reward_mean"+ofA+`,role="explorer"} 0.25`, "trinity_time_x"+ofA+`,role="explorer"} 1`,
		"trinity_time_x"+ofA+`,role="trainer"} 2`, "trinity_actor_lr"+ofA+`,role="trainer"} -Inf`, "trinity_actor_kl"+ofA+`,role="trainer"} NaN`,
		"trinity_eval_new_sums_accuracy_mean_4"+ofA+`,role="explorer"} 1e+300`, "trinity_step"+ofA+`,role="explorer"} 1`,
		"trinity_actor_lr"+ofB+`,role="trainer"} 7`, "trinity_actor_lr"+ofC+`,role="trainer"} 8`,
		"trinity_rollout_reward_mean"+ofC+`,explorer="east",role="explorer"} 1`, "trinity_step"+ofC+`,explorer="west",role="explorer"} 5`,
		"trinity_run_state"+ofB+`,state="finished"} 1`, "trinity_runs_left_out 0", `trinity_runs{state="finished"} 2`,
		"# TYPE trinity_time_x gauge", `trinity_x_y{project="Trinity-RFT",run="<b>\"",group="",id="q/<b>\"",role="x\\\"\\n"} 1`)
	promtool(t, text)
	add(t, a, line(2, "explorer", `"rollout/reward/mean":0.5`)+line(3, "trainer", `"actor/lr":1`)+`{"step":4,"role":"trai`)
	want(page(), "trinity_rollout_reward_mean"+ofA+`,role="explorer"} 0.5`, "trinity_step"+ofA+`,role="trainer"} 3`,
		"trinity_time_x"+ofA+`,role="trainer"} 2`)
	put(t, dir, "p/a/monitor/metrics.jsonl", // cut back by a resume, and longer since
		line(1, "explorer", `"rollout/reward/mean":0.125`)+strings.Repeat(line(2, "trainer", `"actor/lr":1`), 20))
	if text = page(); strings.Contains(text, "trinity_time_x") {
		t.Errorf("old values stay in\n%s", text)
	}
	want(text, "trinity_rollout_reward_mean"+ofA+`,role="explorer"} 0.125`)
}

func promtool(t *testing.T, text string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not on PATH (Debian: prometheus)")
		return
	}
	cmd := exec.Command(path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, out)
	}
}

// Values have bounds: runs, and metrics of a file.
func TestGaugesHaveBounds(t *testing.T) {
	dir, s := site(t, "")
	var many []string
	for i := range maxGauges + 10 {
		many = append(many, fmt.Sprintf(`"many/%d":1`, i))
	}
	for i := range maxScraped + 3 {
		put(t, dir, fmt.Sprintf("r%d/monitor/metrics.jsonl", i), line(1, "trainer", `"a":1`))
	}
	put(t, dir, "z/monitor/about.json", `{"id":"z","name":"`+strings.Repeat("ä", 500)+`","began":"2996-01-01T00:00:00Z"}`)
	put(t, dir, "z/monitor/metrics.jsonl", line(2, "trainer", strings.Join(many, ",")))
	status, text := get(t, s, "/metrics")
	if n := strings.Count(text, "trinity_run_state{"); status != http.StatusOK || n != maxScraped {
		t.Errorf("%d: %d runs", status, n)
	}
	if n := strings.Count(text, "\ntrinity_many_"); n != maxGauges {
		t.Errorf("%d values of a run", n)
	}
	for _, want := range []string{"\ntrinity_runs_left_out 4\n", "\ntrinity_values_left_out{", strings.Repeat("ä", 100) + `"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	promtool(t, text)
}

func TestGaugesNeedTheToken(t *testing.T) {
	dir, s := site(t, "0123456789abcdef")
	put(t, dir, "a/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	if status, text := get(t, s, "/metrics"); status != http.StatusUnauthorized || strings.Contains(text, "trinity_") {
		t.Errorf("without the token: %d %s", status, text)
	}
	status, text := get(t, s, "/metrics", "Authorization", "Bearer 0123456789abcdef")
	if status != http.StatusOK || !strings.Contains(text, "trinity_a{") {
		t.Errorf("with the token: %d %s", status, text)
	}
}
