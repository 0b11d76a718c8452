package monitor

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/rundir"
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
		var v rundir.Number
		if err := v.UnmarshalJSON([]byte(number)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got.add(strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)[2], step, float64(v))
	}
	return got
}

// serve starts a server, whose last arguments are --host and --port, and returns its address when
// it answers.
func serve(t *testing.T, env map[string]string, path string, command ...string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	host, port, _ := strings.Cut(address, ":")
	program := process.Program{Command: append(command, "--host", host, "--port", port), Env: env}
	cmd, killRest, err := program.Cmd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killRest(); _ = cmd.Wait() })
	url = "http://" + address
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if r, err := http.Get(url + path); err == nil {
			r.Body.Close()
			return url
		}
		if time.Since(begin) > 4*time.Minute {
			text, _ := os.ReadFile(log)
			t.Fatalf("%v did not start: %s", command, text)
		}
	}
}

// An MLflow server with SQLite has each point once, also after a kill. Its own client reads them.
func TestRealMLflow(t *testing.T) {
	py, dir := python(t), t.TempDir()
	url := serve(t, nil, "/health", py, "-m", "mlflow", "server", "--workers", "1",
		"--backend-store-uri", "sqlite:///"+filepath.Join(dir, "m.db"), "--artifacts-destination", filepath.Join(dir, "artifacts"))
	run := filepath.Join(dir, "run", "monitor")
	train(t, run, 40, 1, 2)
	args := map[string]any{"uri": url}
	killedAndResumed(t, run, "mlflow", args)
	got := script(t, []string{"MLFLOW_TRACKING_URI=" + url}, `
import mlflow, sys
c = mlflow.MlflowClient()
(run,) = c.search_runs([c.get_experiment_by_name("p").experiment_id])
assert run.info.status == "FINISHED" and run.info.run_name == "n", run.info
assert run.data.params == {"algorithm.repeat_times": "8", "model.model_path": "m"}, run.data.params
for step in (1, 2):
    table = c.load_table(run.info.experiment_id, f"rollouts/step-{step}.json")
    assert len(table) == 32 and set(table["step"]) == {step}, table
    row = table.iloc[0]
    assert (row["task"], row["reward"], row["advantage"], row["prompt"]) == ("a", 0.5, 1.5, "1+1?"), row
    assert row["response"] == f"two <b>{step} " and table["reward"].count() == 1, row
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

// Trackio's own program reads the database, with numbers that JSON lacks.
func TestRealTrackio(t *testing.T) {
	python(t)
	dir, db := filepath.Join(t.TempDir(), "monitor"), t.TempDir()
	train(t, dir, 2, 1, 2)
	killedAndResumed(t, dir, "trackio", map[string]any{"dir": db})
	monitors, _ := followed(t, dir, "trackio", map[string]any{"dir": db})
	for _, m := range monitors {
		logAll(t, m, rec("trainer", 7, trinity.Metrics{"actor/final_loss": math.NaN()}))
	}
	end(t, monitors, Finished)
	got := script(t, []string{"TRACKIO_DIR=" + db}, `
import json, subprocess, sys
def trackio(*args):
    return json.loads(subprocess.check_output([sys.executable, "-m", "trackio.cli", *args, "--project", "p", "--json"]))
assert trackio("list", "runs")["runs"] == ["n"]
traces = trackio("list", "traces", "--run", "n", "--sort", "step_asc")["traces"]
assert [t["step"] for t in traces] == [1, 1, 2, 2], traces
assert traces[0]["messages"] == [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "two <b>1 "}], traces[0]
about = traces[0]["metadata"]
assert (about["task"], about["reward"], about["advantage"], "reward" in traces[1]["metadata"]) == ("a", 0.5, 1.5, False), about
assert len(trackio("list", "traces", "--run", "n", "--search", "<B>2")["traces"]) == 2
for v in trackio("get", "metric", "--run", "n", "--metric", "actor/final_loss")["values"]:
    print(v["step"], v["value"], "actor/final_loss")
`)
	want := points{}
	for step := range int64(6) {
		want.add("actor/final_loss", step+1, -1/float64(step+1))
	}
	want.add("actor/final_loss", 7, math.NaN())
	if got := readPoints(t, got); !maps.Equal(got, want) {
		t.Errorf("trackio has %v", got)
	}
}

// A Trackio server has each row once, also one that comes twice.
func TestRealTrackioServer(t *testing.T) {
	py, dir, there := python(t), filepath.Join(t.TempDir(), "monitor"), t.TempDir()
	train(t, dir, 40, 1, 2)
	t.Setenv("TRACKIO_WRITE_TOKEN", "a-secret-of-the-test")
	url := serve(t, map[string]string{"TRACKIO_DIR": filepath.Join(there, "trackio")}, "/", py, "-c", `
import sys, uvicorn, trackio.server
app, _ = trackio.server.build_starlette_app_only()
uvicorn.run(app, host=sys.argv[2], port=int(sys.argv[4]))
`)
	killedAndResumed(t, dir, "trackio", map[string]any{"server_url": url})
	if err := os.Remove(filepath.Join(dir, "sent_trackio.json")); err != nil {
		t.Fatal(err)
	}
	if n, err := Sync(t.Context(), dir, "trackio", map[string]any{"server_url": url}, nil); err != nil || n != 18 {
		t.Errorf("sync sent %d records, %v", n, err)
	}
	compare(t, dir, newTrackio(t, there, nil))
	if got := rolloutsIn(t, filepath.Join(there, "trackio")); len(got) != 2 || got[1] != maxRollouts || got[2] != maxRollouts {
		t.Errorf("the server has the rollouts %v", got)
	}
}

// wandb sync sends a server the rows of the offline run.
func TestRealWandb(t *testing.T) {
	py, dir := python(t), filepath.Join(t.TempDir(), "monitor")
	train(t, dir, 40, 1, 2)
	killedAndResumed(t, dir, "wandb", map[string]any{})
	s := &wandbServer{}
	server := httptest.NewServer(s.handler(t))
	defer server.Close()
	offline, err := filepath.Glob(filepath.Join(dir, "wandb", "offline-run-*"))
	if err != nil || len(offline) != 1 {
		t.Fatal(offline, err)
	}
	cmd := exec.Command(py, "-m", "wandb", "sync", offline[0])
	cmd.Env = append(os.Environ(), "WANDB_BASE_URL="+server.URL,
		"WANDB_API_KEY="+strings.Repeat("a", 40), "WANDB_ENTITY=e", "HOME="+t.TempDir())
	cmd.Dir = t.TempDir() // it writes logs there
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	compare(t, dir, service{points: func() points { return s.points(t) }})
	if s.status() != Finished {
		t.Errorf("the last request is %v", s.last)
	}
	local, err := filepath.Glob(filepath.Join(offline[0], "files", "media", "table", "rollouts_*.table.json"))
	tables := s.tables(t)
	if err != nil || len(tables) != 2 || len(local) != 2 || !strings.Contains(tables[1], `"two \u003cb\u003e1 "`) {
		t.Fatalf("the server has the tables %v of %v, %v", tables, local, err)
	}
	if text, err := os.ReadFile(local[1]); err != nil || string(text) != tables[2] {
		t.Errorf("the table of step 2 is %.80q there, want %.80q, %v", tables[2], text, err)
	}
	var config struct {
		Own struct {
			Value struct{ M []map[string]any }
		} `json:"_wandb"`
	}
	if err := json.Unmarshal([]byte(s.config), &config); err != nil {
		t.Fatal(err)
	}
	axis := 0 // of the rewards, from 1 on
	for _, m := range config.Own.Value.M {
		if m["1"] == "rollout/reward/mean" {
			axis = int(m["5"].(float64))
		}
	}
	if axis == 0 || config.Own.Value.M[axis-1]["1"] != wandbStep {
		t.Errorf("the axes are %v", config.Own.Value.M)
	}
}

// sent returns the JSON of a request, which may be compressed.
func sent(t *testing.T, r *http.Request) (in map[string]any) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return nil
		}
		body = z
	}
	if err := json.NewDecoder(body).Decode(&in); err != nil {
		t.Error(err)
	}
	return in
}

// SwanLab's own reader has the records of the offline run.
func TestRealSwanLab(t *testing.T) {
	dir := t.TempDir()
	killedAndResumed(t, dir, "swanlab", map[string]any{"description": "d", "tags": []any{"a", "b"}})
	got := script(t, nil, `
import glob, sys
from swanlab.sdk.internal.core_python.store import DataStoreReader
from swanlab.proto.swanlab.record.v1.record_pb2 import Record
(path,) = glob.glob(sys.argv[1])
reader = DataStoreReader()
reader.open(path)
records = [Record.FromString(data) for data in reader]
start, finish = records[0].start, records[-1].finish
assert (start.project, start.name, start.description, list(start.tags)) == ("p", "n", "d", ["a", "b"]), start
assert finish.state == 1, finish
for r in records[1:-1]:
    print(r.scalar.step, r.scalar.value.number, r.scalar.key)
`, filepath.Join(dir, "swanlab", "run-*.swanlab"))
	compare(t, dir, service{points: func() points { return readPoints(t, got) }})
}

// SwanLab's own client and its sync send a server what the sink sends: the same requests, but for what
// they tell of their machine, and the same points.
func TestRealSwanLabServer(t *testing.T) {
	py := python(t)
	records := []trinity.Record{
		rec("trainer", 1, trinity.Metrics{"actor/final_loss": 0.5, "lr": 1}),
		rec("trainer", 2, trinity.Metrics{"actor/final_loss": math.NaN(), "lr": 2}),
	}
	t.Setenv("SWANLAB_API_KEY", "a-secret-key")
	ours, dir := &swanlabRecorder{version: 1}, t.TempDir()
	monitors, said := followed(t, dir, "swanlab", map[string]any{
		"api_host": (&faults{}).serve(t, ours.handler(t)), "tags": []any{"a"}, "description": "d"})
	for _, m := range monitors {
		logAll(t, m, records...)
	}
	end(t, monitors, Finished)
	if said() != "" {
		t.Error(said())
	}
	about, err := rundir.ReadAbout(dir)
	if err != nil {
		t.Fatal(err)
	}
	theirs, synced := &swanlabRecorder{version: 1}, &swanlabRecorder{version: 1}
	for recorder, program := range map[*swanlabRecorder][]string{
		theirs: {py, "-c", `
import sys, swanlab
run = swanlab.init(project="p", experiment_name="n", id=sys.argv[1], resume="allow", tags=["a"], description="d", public=False,
    config={"algorithm.repeat_times": 8, "model.model_path": "m"})
for step, loss in ((1, 0.5), (2, float("nan"))):
    swanlab.log({"actor/final_loss": loss, "lr": step}, step=step)
swanlab.finish()
`, about.ID},
		synced: {py, "-m", "swanlab", "sync", filepath.Join(dir, "swanlab")},
	} {
		host := (&faults{}).serve(t, recorder.handler(t))
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Env = append(os.Environ(), "SWANLAB_API_HOST="+host, "SWANLAB_WEB_HOST="+host, "HOME="+t.TempDir())
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", program, err, out)
		}
	}
	if got := theirs.comparable(t); !slices.Equal(got, ours.comparable(t)) {
		t.Errorf("SwanLab's client sends\n%s\nand the sink\n%s", strings.Join(got, "\n"), strings.Join(ours.comparable(t), "\n"))
	}
	if got := synced.points(); !maps.Equal(got, ours.points()) || len(got) != 4 || synced.status() != Finished {
		t.Errorf("swanlab sync sends %v, and the sink %v", got, ours.points())
	}
}

// comparable returns the requests without what only a program in Python sends, at times no settings before
// the settings, and without times.
func (s *swanlabRecorder) comparable(t *testing.T) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := regexp.MustCompile(`"(createdAt|finishedAt|create_time)":"[^"]*"`)
	for _, r := range s.requests {
		left := slices.ContainsFunc([]string{
			"/summaries/", "/heartbeat", `"type":"log"`, `{"metadata":`, `{"requirements":`, `{"conda":`, `{"config":{}}`,
		}, func(part string) bool { return strings.Contains(r, part) })
		if !left {
			all = append(all, times.ReplaceAllString(r, `"$1":""`))
		}
	}
	if len(all) < 8 {
		t.Errorf("there are the requests %q", s.requests)
	}
	return all
}

// OpenTelemetry's own messages decode what a collector gets.
func TestRealOtel(t *testing.T) {
	python(t)
	dir, kept := filepath.Join(t.TempDir(), "monitor"), t.TempDir()
	s := newOtel(t, kept, &faults{})
	spans(t, dir, 1)
	says(t, dir, []string{"WARNING: a line"}, 2)
	monitors, _ := followed(t, dir, "otel", s.args)
	for _, m := range monitors {
		logAll(t, m, rec("trainer", 3, trinity.Metrics{"actor/final_loss": 0.5, "actor/lr": math.NaN()}))
	}
	end(t, monitors, Finished)
	got := script(t, nil, `
import sys
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
def scope(of):
    named = {a.key: a.value.string_value for a in of.resource.attributes}
    assert named["service.name"] == "trinity" and named["trinity.run"] == "n" and len(named["service.instance.id"]) == 12, named
(of,) = ExportMetricsServiceRequest.FromString(open(sys.argv[1] + "/metrics", "rb").read()).resource_metrics
scope(of)
for m in of.scope_metrics[0].metrics:
    (p,) = m.gauge.data_points
    about = {a.key: a.value.string_value or a.value.int_value for a in p.attributes}
    assert about["role"] == "trainer" and p.time_unix_nano == 1767355230005000000, p
    print(about["step"], p.as_double, m.name)
(of,) = ExportTraceServiceRequest.FromString(open(sys.argv[1] + "/traces", "rb").read()).resource_spans
scope(of)
call, reward, rollout, wait = of.scope_spans[0].spans
for s in (call, reward):
    assert s.parent_span_id == rollout.span_id and s.trace_id == rollout.trace_id, s
assert not rollout.parent_span_id and not wait.parent_span_id and wait.trace_id != call.trace_id
assert len({s.span_id for s in of.scope_spans[0].spans}) == 4 and len(call.span_id) == 8 and len(call.trace_id) == 16
assert (wait.name, rollout.name, reward.name, call.name) == ("wait for the buffer", "rollout", "reward", "text_completion m"), of
assert (call.kind, call.start_time_unix_nano, call.end_time_unix_nano) == (call.SPAN_KIND_CLIENT, 1001000, 1009000), call
about = {a.key: a.value.string_value or a.value.int_value for a in call.attributes}
assert about == {"trinity.role": "explorer", "trinity.name": "a", "trinity.rollout": "1/a/2/0", "trinity.step": 1, "trinity.version": 4,
    "gen_ai.operation.name": "text_completion", "gen_ai.provider.name": "trinity", "gen_ai.request.model": "m",
    "gen_ai.conversation.id": "1/a/2/0"}, about
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
all = ExportLogsServiceRequest.FromString(open(sys.argv[1] + "/logs", "rb").read())
for of in all.resource_logs:
    scope(of)
line, failed, dropped, ended = [r for of in all.resource_logs for s in of.scope_logs for r in s.log_records]
warn = logs_pb2.SEVERITY_NUMBER_WARN
assert (line.body.string_value, line.severity_number, line.severity_text) == ("WARNING: a line", warn, "WARN"), line
assert (line.event_name, ended.event_name, failed.event_name) == ("trinity.said", "trinity.run.ended", "trinity.rollout.failed"), all
assert line.time_unix_nano == line.observed_time_unix_nano > 10**18 and not line.trace_id, line
assert (ended.body.string_value, ended.severity_number) == ("the run has finished", logs_pb2.SEVERITY_NUMBER_INFO), ended
assert (failed.body.string_value, failed.time_unix_nano) == ("no such tool \ufffd", 1005000), failed
assert len(failed.trace_id) == 16 and len(failed.span_id) == 8, failed
assert (dropped.event_name, dropped.severity_text) == ("trinity.rollout.dropped", "INFO"), dropped
assert dropped.body.string_value == "dropped by advantage" and "error.type" not in [a.key for a in dropped.attributes], dropped
about = {a.key: a.value.string_value or a.value.int_value for a in failed.attributes}
assert about == {"error.type": "tool", "exception.stacktrace": "a stack", "trinity.role": "explorer", "trinity.task": "a",
    "trinity.rollout": "1/a/2/0", "trinity.step": 1, "trinity.retries": 2}, about
`, kept)
	compare(t, dir, service{points: func() points { return readPoints(t, got) }})
}
