package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/trinitytest"
)

// rewardsBySteps asks the service's own program for the rewards of the run, and prints them as JSON by step.
var rewardsBySteps = map[string]string{
	"mlflow": `
import mlflow
c = mlflow.MlflowClient("http://" + os.environ["MLFLOW_AT"])
(run,) = c.search_runs([c.get_experiment_by_name("trinity-examples").experiment_id])
assert run.info.status == "FINISHED" and run.data.params["algorithm.repeat_times"] == "8", run
got = {m.step: m.value for m in c.get_metric_history(run.info.run_id, "rollout/reward/mean")}
`,
	"trackio": `
text = subprocess.check_output([sys.executable, "-m", "trackio.cli", "get", "metric", "--project", "trinity-examples",
    "--run", "monitoring", "--metric", "rollout/reward/mean", "--json"])
got = {v["step"]: v["value"] for v in json.loads(text)["values"]}
`,
	"swanlab": `
from swanlab.sdk.internal.core_python.store import DataStoreReader
from swanlab.proto.swanlab.record.v1.record_pb2 import Record
(path,) = glob.glob("swanlab/run-*.swanlab")
reader = DataStoreReader()
reader.open(path)
records = [Record.FromString(data) for data in reader]
assert records[-1].finish.state == 1, records[-1]
got = {r.scalar.step: r.scalar.value.number for r in records if r.scalar.key == "rollout/reward/mean"}
`,
	"tensorboard": `
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
got = {}
for path in glob.glob("tensorboard/**/events*", recursive=True):
    events = EventAccumulator(path).Reload()
    if "rollout/reward/mean" in events.Tags()["scalars"]:
        got |= {e.step: e.value for e in events.Scalars("rollout/reward/mean")}
`,
	"otel": `
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
def received(name):
    return open(os.environ["OTEL_GOT"] + "/" + name, "rb").read()
got = {}
for of in ExportMetricsServiceRequest.FromString(received("metrics")).resource_metrics:
    for m in of.scope_metrics[0].metrics:
        if m.name == "rollout/reward/mean":
            got |= {a.value.int_value: p.as_double for p in m.gauge.data_points for a in p.attributes if a.key == "step"}
calls = [s for of in ExportTraceServiceRequest.FromString(received("traces")).resource_spans for s in of.scope_spans[0].spans
    if s.name == "text_completion model"]
assert len(calls) == 20 * 8 * 8, len(calls)
logs = [r.body.string_value for of in ExportLogsServiceRequest.FromString(received("logs")).resource_logs
    for r in of.scope_logs[0].log_records]
assert logs[0].startswith("monitoring: mode both, algorithm grpo") and logs[-1] == "the run has finished", logs
`,
	"wandb": `
(path,) = glob.glob("wandb/offline-run-*")
assert len(glob.glob(path + "/files/media/table/rollouts_*.table.json")) >= 1, os.listdir(path)
subprocess.check_output([sys.executable, "-m", "wandb", "sync", os.path.abspath(path)], cwd=os.environ["HOME"], stderr=subprocess.STDOUT)
got = {}
for line in open(os.environ["WANDB_GOT"]):
    row = json.loads(line)
    if "rollout/reward/mean" in row:
        got[row["step"]] = row["rollout/reward/mean"]
`,
}

// One run sends its metrics to all monitors, and the program of each service reads what metrics.jsonl has.
func TestMonitoringReachesEveryService(t *testing.T) {
	py := os.Getenv("TRINITY_MONITOR_PYTHON")
	if py == "" {
		if os.Getenv("TRINITY_REAL") == "required" {
			t.Fatal("TRINITY_MONITOR_PYTHON does not name a Python")
		}
		t.Skip("TRINITY_MONITOR_PYTHON names no Python with mlflow, trackio, wandb, swanlab and tensorboard")
	}
	t.Chdir("..")
	dir := t.TempDir()
	got := filepath.Join(dir, "got")
	collector, wandb, metrics := httptest.NewServer(keepRequests(t, got)), httptest.NewServer(wandbServer(t, got)), trinitytest.FreeAddress(t)
	t.Cleanup(collector.Close)
	t.Cleanup(wandb.Close)
	mlflow := startMLflow(t, py, dir)
	for key, value := range map[string]string{
		"MLFLOW_TRACKING_URI": "http://" + mlflow, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "TRACKIO_DIR": filepath.Join(dir, "trackio"),
		"TRINITY_CHECKPOINT_ROOT_DIR": dir, "WANDB_API_KEY": "", "SWANLAB_API_KEY": "",
	} {
		t.Setenv(key, value)
	}
	cfg, err := config.Load("examples/monitoring/monitoring.yaml", config.Options{Overrides: []string{
		"monitor.monitor_args.prometheus.metrics_addr=" + metrics, "monitor.monitor_args.mlflow.close_timeout=100"}})
	if err != nil {
		t.Fatal(err)
	}
	scraped := scrape(t, "http://"+metrics+"/metrics")
	if _, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(s string) { t.Log(s) }}); err != nil {
		t.Fatal(err)
	}
	reward := regexp.MustCompile(`(?m)^trinity_rollout_reward_mean\{project="trinity-examples",run="monitoring",role="explorer"\} 0\.`)
	if page := scraped(); !reward.MatchString(page) {
		t.Errorf("Prometheus gets %q", page)
	}
	monitors := filepath.Join(dir, "trinity-examples", "monitoring", "monitor")
	want := map[int64]float64{}
	for _, r := range records(t, filepath.Join(monitors, "metrics.jsonl")) {
		if v, ok := r.Metrics["rollout/reward/mean"]; ok {
			want[r.Step] = v
		}
	}
	if len(want) != 20 {
		t.Fatalf("the run has the rewards %v", want)
	}
	for name, program := range rewardsBySteps {
		cmd := exec.Command(py, "-c", "import glob, json, os, subprocess, sys\n"+program+"print(json.dumps(got))")
		cmd.Dir = monitors
		cmd.Env = append(os.Environ(), "MLFLOW_AT="+mlflow, "OTEL_GOT="+got, "WANDB_GOT="+filepath.Join(got, "rows"), "HOME="+t.TempDir(),
			"WANDB_BASE_URL="+wandb.URL, "WANDB_API_KEY="+strings.Repeat("a", 40), "WANDB_ENTITY=e")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, &stderr)
			continue
		}
		read := map[int64]float64{}
		if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &read); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		equal := func(a, b float64) bool { return a == b || name == "tensorboard" && float32(a) == float32(b) }
		if !maps.EqualFunc(want, read, equal) {
			t.Errorf("%s has the rewards %v, want %v", name, read, want)
		}
	}
}

// keepRequests answers as a collector that takes all, and keeps the bodies by their path in dir.
func keepRequests(t *testing.T, dir string) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = appendTo(dir, filepath.Base(r.URL.Path), body)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func appendTo(dir, name string, text []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// wandbServer answers wandb sync, and keeps the rows of the history in the file rows in dir.
func wandbServer(t *testing.T, dir string) http.Handler {
	var mu sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("/graphql", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Variables struct {
				Name  string
				Files []string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		files := []string{}
		for _, name := range in.Variables.Files {
			files = append(files, fmt.Sprintf(`{"name": %q, "uploadUrl": "http://%s/upload/%[1]s"}`, name, r.Host))
		}
		fmt.Fprintf(w, `{"data": {"upsertBucket": {"inserted": true, "bucket": {"id": "x", "name": %q, "displayName": "n", "config": "{}",
			"project": {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}, "historyLineCount": 0}}, "createRunFiles": {"runID": "x",
			"uploadHeaders": [], "files": [%s]}, "serverInfo": {"features": []}}}`, in.Variables.Name, strings.Join(files, ","))
	})
	mux.HandleFunc("/files/e/p/{run}/file_stream", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var in struct {
			Files map[string]struct{ Content []string }
		}
		err := json.NewDecoder(r.Body).Decode(&in)
		for _, row := range in.Files["wandb-history.jsonl"].Content {
			err = errors.Join(err, appendTo(dir, "rows", []byte(row+"\n")))
		}
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	return mux
}

// scrape asks for a page until somebody wants the newest answer.
func scrape(t *testing.T, url string) (newest func() string) {
	stop, page := make(chan struct{}), make(chan string)
	go func() {
		text := ""
		for {
			if r, err := http.Get(url); err == nil {
				if body, err := io.ReadAll(r.Body); err == nil {
					text = string(body)
				}
				r.Body.Close()
			}
			select {
			case <-stop:
				page <- text
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	newest = sync.OnceValue(func() string { close(stop); return <-page })
	t.Cleanup(func() { newest() })
	return newest
}

// startMLflow starts a server and returns its address once it answers.
func startMLflow(t *testing.T, py, dir string) string {
	t.Helper()
	address := trinitytest.FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	program := process.Program{Command: []string{py, "-m", "mlflow", "server", "--workers", "1", "--host", host, "--port", port,
		"--backend-store-uri", "sqlite:///" + filepath.Join(dir, "m.db"), "--artifacts-destination", filepath.Join(dir, "artifacts")}}
	cmd, killRest, err := program.Cmd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killRest(); _ = cmd.Wait() })
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if r, err := http.Get("http://" + address + "/health"); err == nil {
			r.Body.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal("mlflow server did not start")
		}
	}
}
