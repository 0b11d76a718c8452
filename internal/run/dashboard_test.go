package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/trinitytest"
)

// The dashboard and the alert rules name metrics that a run has. A real Prometheus reads the rules and
// scrapes them.
func TestDashboardAndRulesNameMetricsOfARun(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	address := trinitytest.FreeAddress(t)
	monitors, err := monitor.Open([]string{"prometheus"}, map[string]any{"metrics_addr": address}, monitor.Run{Dir: t.TempDir(), Name: "r"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = monitor.Close(monitors, "") })
	table, err := rundir.ReadTable(filepath.Join(p.job(), "monitor"), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for r := range table.Records() {
		if err := monitors[0].Log(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	watched := httptest.NewServer((&studio.Server{Dir: p.job()}).Handler()) // has the same metrics
	t.Cleanup(watched.Close)
	rules := "../../docs/operate/alerts.yaml"
	for _, page := range []string{get(t, "http://"+address+"/metrics"), get(t, watched.URL+"/metrics")} {
		for _, path := range []string{rules, "../../docs/operate/grafana.json"} {
			names := regexp.MustCompile(`trinity_\w+`).FindAllString(read(t, path), -1)
			if len(names) == 0 {
				t.Errorf("%s names no metric", path)
			}
			for _, name := range names {
				if !strings.Contains(page, "\n"+name+"{") {
					t.Errorf("%s names %s, which no run has", path, name)
				}
			}
		}
	}
	if !json.Valid([]byte(read(t, "../../docs/operate/grafana.json"))) {
		t.Error("the dashboard is no JSON")
	}
	scraped(t, rules, address, watched.Listener.Addr().String())
}

// scraped starts Prometheus and waits until it has the step of the run at each address.
func scraped(t *testing.T, rules string, addresses ...string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not on PATH (Debian: prometheus)")
	}
	dir, at := t.TempDir(), trinitytest.FreeAddress(t)
	write(t, filepath.Join(dir, "alerts.yaml"), read(t, rules))
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [alerts.yaml]\n"+
		"scrape_configs: [{job_name: trinity, static_configs: [{targets: [%s]}]}]\n", strings.Join(addresses, ", ")))
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	query := "http://" + at + "/api/v1/query?query=" + url.QueryEscape(`trinity_step{role="trainer"}`)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if r, err := http.Get(query); err == nil {
			text, _ := io.ReadAll(r.Body)
			r.Body.Close()
			if strings.Count(string(text), `"8"]`) == len(addresses) { // the run has eight steps
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("Prometheus has not scraped the run: ", log.String())
		}
	}
	if got := get(t, "http://"+at+"/api/v1/rules"); strings.Count(got, `"health"`) != strings.Count(read(t, rules), "- alert:") {
		t.Errorf("Prometheus has the rules %s", got)
	}
}

func get(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(address, r.Status, err)
	}
	return string(text)
}
