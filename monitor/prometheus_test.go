package monitor

import (
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// scrape opens the monitor at a free port and reads a page.
func scrape(t *testing.T, run Run, header http.Header, records ...trinity.Record) (status int, page string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	run.Dir = t.TempDir()
	ms, err := Open([]string{"prometheus"}, map[string]any{"metrics_addr": l.Addr().String()}, run)
	if err != nil {
		t.Fatal(err)
	}
	defer ms[0].Close()
	logAll(t, ms[0], records...)
	request, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestPrometheusServesTheNewestValues(t *testing.T) {
	_, page := scrape(t, Run{Project: "p", Name: "a \"run\"\n"}, nil,
		rec("explorer", 2, trinity.Metrics{"rollout/reward/mean": 0.25}),
		rec("explorer", 3, trinity.Metrics{"rollout/reward/mean": 0.5, "time/sync_weight": 1}),
		rec("trainer", 2, trinity.Metrics{"actor/lr": math.Inf(-1), "actor/kl": math.NaN(), "time/sync_weight": 2}),
		rec("explorer", 1, trinity.Metrics{"eval/new sums/accuracy/mean@4": 1e300}))
	const labels = `{project="p",run="a \"run\"\n",role=`
	for _, want := range []string{
		"trinity_rollout_reward_mean" + labels + `"explorer"} 0.5`, "trinity_actor_lr" + labels + `"trainer"} -Inf`,
		"trinity_actor_kl" + labels + `"trainer"} NaN`, "trinity_eval_new_sums_accuracy_mean_4" + labels + `"explorer"} 1e+300`,
		"trinity_step" + labels + `"explorer"} 3`, "trinity_time_sync_weight" + labels + `"explorer"} 1` + "\n" +
			"trinity_time_sync_weight" + labels,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q in\n%s", want, page)
		}
	}
	if strings.Count(page, "# TYPE") != 6 {
		t.Errorf("page\n%s", page)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on PATH (Debian: prometheus)")
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, out)
	}
}

func TestPrometheusNeedsItsToken(t *testing.T) {
	const token = "0123456789abcdef"
	t.Setenv("TRINITY_METRICS_TOKEN", token)
	if status, page := scrape(t, Run{}, nil, trainRecord(1, 1)); status != http.StatusUnauthorized || strings.Contains(page, "trinity_") {
		t.Errorf("without the token: %d, %s", status, page)
	}
	if status, page := scrape(t, Run{}, http.Header{"Authorization": {"Bearer " + token}}, trainRecord(1, 1)); status != 200 ||
		!strings.Contains(page, "trinity_actor_final_loss") {
		t.Errorf("with the token: %d, %s", status, page)
	}
}

func TestPrometheusRefusesNoRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for address, want := range map[string]string{
		l.Addr().String(): "address already in use; the run goes on", "0.0.0.0:0": "there is no token", "nonsense": "the run goes on"} {
		said := ""
		ms, err := Open([]string{"prometheus"}, map[string]any{"metrics_addr": address},
			Run{Dir: t.TempDir(), Say: func(line string) { said = line }})
		if err != nil {
			t.Fatal(err)
		}
		logAll(t, ms[0], trainRecord(1, 1))
		if err := ms[0].Close(); err != nil || !strings.Contains(said, want) {
			t.Errorf("%s: said %q, %v", address, said, err)
		}
	}
}
