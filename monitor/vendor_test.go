package monitor

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// python returns a Python that has the vendors' packages, named by TRINITY_MONITOR_PYTHON.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TRINITY_MONITOR_PYTHON")
	if path == "" {
		if os.Getenv("TRINITY_REAL") == "required" {
			t.Fatal("TRINITY_MONITOR_PYTHON does not name a Python")
		}
		t.Skip("TRINITY_MONITOR_PYTHON names no Python with mlflow, trackio, wandb and swanlab")
	}
	return path
}

// script runs a Python program and returns its output.
func script(t *testing.T, env []string, text string, args ...string) string {
	t.Helper()
	cmd := exec.Command(python(t), append([]string{"-c", text}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return string(out)
}

// readPoints reads lines of a step, a value and a name.
func readPoints(t *testing.T, text string) points {
	t.Helper()
	got := points{}
	for line := range strings.Lines(text) {
		var step int64
		var number string
		if _, err := fmt.Sscan(line, &step, &number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var v value
		if err := v.UnmarshalJSON([]byte(number)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got.add(strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)[2], step, float64(v))
	}
	return got
}

// An MLflow server with SQLite has each point once, also after a kill. Its own client reads them.
func TestRealMLflow(t *testing.T) {
	py, dir := python(t), t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	host, port, _ := strings.Cut(address, ":")
	log := &bytes.Buffer{}
	server := process.Program{Command: []string{py, "-m", "mlflow", "server", "--host", host, "--port", port, "--workers", "1",
		"--backend-store-uri", "sqlite:///" + filepath.Join(dir, "m.db"), "--default-artifact-root", filepath.Join(dir, "artifacts")}}
	cmd, killRest, err := server.Cmd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killRest(); _ = cmd.Wait() })
	url := "http://" + address
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if r, err := http.Get(url + "/health"); err == nil {
			r.Body.Close()
			break
		}
		if time.Since(begin) > 4*time.Minute {
			t.Fatalf("mlflow server did not start: %s", log)
		}
	}
	run := filepath.Join(dir, "run")
	args := map[string]any{"uri": url}
	killedAndResumed(t, run, "mlflow", args)
	got := script(t, []string{"MLFLOW_TRACKING_URI=" + url}, `
import mlflow, sys
c = mlflow.MlflowClient()
(run,) = c.search_runs([c.get_experiment_by_name("p").experiment_id])
assert run.info.status == "FINISHED" and run.info.run_name == "n", run.info
assert run.data.params == {"algorithm.repeat_times": "8"}, run.data.params
for name in run.data.metrics:
    for m in c.get_metric_history(run.info.run_id, name):
        print(m.step, m.value, name)
`)
	compare(t, run, service{points: func() points { return readPoints(t, got) }, named: mlflowName})
}

// killedAndResumed logs a run that was killed after its fourth step and resumed after its second.
func killedAndResumed(t *testing.T, dir, name string, args map[string]any) {
	t.Helper()
	for _, part := range []struct {
		from, to int64
		status   Status
	}{{1, 4, ""}, {3, 6, Finished}} {
		with := maps.Clone(args)
		with["close_timeout"] = 120
		monitors, said := followed(t, dir, name, with)
		logSteps(t, monitors, part.from, part.to)
		end(t, monitors, part.status)
		if said() != "" {
			t.Error(said())
		}
	}
}
