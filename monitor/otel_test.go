package monitor

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// spans writes the trace of a process beside the monitor directory dir: spans of rollouts.
func spans(t *testing.T, dir string, rollouts ...int) {
	t.Helper()
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(filepath.Dir(dir), rundir.Traces), Spans: true, Text: func(int32) string { return "" }, Say: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range rollouts {
		id := trinity.ExperienceID{Step: int64(step), Task: "a", Run: 2}
		s := trinity.Span{Role: "explorer", Name: "a", Step: id.Step, Version: 4, Experience: id, Begin: time.UnixMicro(1001)}
		s.End = s.Begin.Add(8 * time.Microsecond)
		for _, s.Kind = range []trinity.SpanKind{trinity.SpanCall, trinity.SpanReward, trinity.SpanRollout} {
			w.Span(s)
		}
		w.Span(trinity.Span{Role: "trainer", Kind: trinity.SpanWait, For: "the buffer", Step: int64(step), Begin: s.Begin, End: s.End})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// newOtel is a collector. It keeps a point of a time and role once, as stores of time series do, and
// keeps each request in dir.
func newOtel(t *testing.T, dir string, f *faults) service {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20secret, x-other=1")
	var mu sync.Mutex
	got, seen, logs := points{}, map[string]bool{}, points{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		known := r.URL.Path == "/v1/metrics" || r.URL.Path == "/v1/traces" || r.URL.Path == "/v1/logs"
		if err != nil || !known || r.Header.Get("X-Token") != "a secret" || r.Header.Get("X-Other") != "1" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %v: %v", r.URL.Path, r.Header, err)
		}
		kept, err := os.OpenFile(filepath.Join(dir, filepath.Base(r.URL.Path)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = kept.Write(body) // a message with all parts that came
			err = errors.Join(err, kept.Close())
		}
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/v1/logs" {
			for _, text := range parseFields(t, body).sub(1).sub(2).all(2) {
				l := parseFields(t, text)
				logs[fmt.Sprintf("%s %s %s", l.bytes[3], l.bytes[12], l.sub(5).bytes[1])]++
			}
			return
		}
		if r.URL.Path == "/v1/traces" {
			for _, span := range parseFields(t, body).sub(1).sub(2).all(2) {
				s := parseFields(t, span)
				got[fmt.Sprintf("span %s", s.bytes[5])]++
				if key := fmt.Sprintf("%x %x", s.bytes[1], s.bytes[2]); !seen[key] {
					seen[key] = true
					got["spans"]++
				}
			}
			return
		}
		for _, metric := range parseFields(t, body).sub(1).sub(2).all(2) {
			m := parseFields(t, metric)
			for _, text := range m.sub(5).all(1) {
				point := parseFields(t, text)
				step := parseFields(t, parseFields(t, point.every[7][1]).bytes[2]).number(3)
				key := fmt.Sprintf("%s %d %q", m.bytes[1], point.number(3), point.every[7])
				if !seen[key] {
					got.add(string(m.bytes[1]), int64(step), math.Float64frombits(point.number(4)))
				}
				seen[key] = true
			}
		}
	})
	return service{
		args: map[string]any{"endpoint": f.serve(t, h)}, points: func() points { mu.Lock(); defer mu.Unlock(); return maps.Clone(got) },
		logs: func() points { mu.Lock(); defer mu.Unlock(); return maps.Clone(logs) },
		status: func() (status Status) {
			mu.Lock()
			defer mu.Unlock()
			for text, s := range map[string]Status{
				"INFO trinity.run.ended the run has finished": Finished, "ERROR trinity.run.ended the run has failed": Failed,
				"WARN trinity.run.ended the run has been stopped": Stopped,
			} {
				if logs[text] > 0 {
					status = s
				}
			}
			return status
		},
	}
}

// A collector has each span of the trace once: of a run that was killed before it knew that it had
// them, of the process that goes on, and of trinity sync.
func TestOtelSendsEachSpanOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "monitor")
	s := newOtel(t, t.TempDir(), &faults{})
	want := func(n, calls int) {
		t.Helper()
		if got := s.points(); got["spans"] != n || got["span text_completion m"] != calls {
			t.Errorf("the collector has %d spans, want %d, and %d calls, want %d", got["spans"], n, got["span text_completion m"], calls)
		}
	}
	spans(t, dir, 1, 2)
	monitors, said := followed(t, dir, "otel", s.args)
	end(t, monitors, "")
	lost, err := openTail(dir, "otel")
	if err != nil {
		t.Fatal(err)
	}
	lost.at.Spans = nil
	if err := lost.keep(lost.at); err != nil {
		t.Fatal(err)
	}
	spans(t, dir, 2, 3) // step 2 again, by another process
	monitors, again := followed(t, dir, "otel", s.args)
	end(t, monitors, Finished)
	if got := s.points()["spans"]; got != 16 || said()+again() != "" {
		t.Errorf("the collector has %d spans; the run says %q", got, said()+again())
	}
	calls := s.points()["span text_completion m"]
	spans(t, dir, 9)
	for range 2 {
		if n, err := Sync(t.Context(), dir, "otel", s.args, nil); n != 0 || err != nil {
			t.Errorf("sync: %d, %v", n, err)
		}
		want(20, calls+1)
	}
}

// says writes lines for people and failed rollouts of a process beside the monitor directory dir.
func says(t *testing.T, dir string, lines []string, failed ...int) {
	t.Helper()
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(filepath.Dir(dir), rundir.Traces), Spans: true, Text: func(int32) string { return "" }, Say: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	said := Messages{To: func(string) {}}
	said.Say("nobody keeps this line")
	err = said.Keep(dir)
	for _, line := range lines {
		said.Say(line)
	}
	for _, run := range failed {
		w.Failed(trinity.FailedRollout{
			ID: trinity.ExperienceID{Step: 1, Task: "a", Run: run}, Role: "explorer", Kind: trinity.FailedTool, Retries: 2,
			Reason: "no such tool \xff\na stack", Time: time.UnixMicro(1005),
		})
		w.Failed(trinity.FailedRollout{
			ID: trinity.ExperienceID{Step: 1, Task: "b", Run: run}, Role: "explorer", Kind: trinity.DroppedAnswer,
			Reason: "dropped by advantage", Time: time.UnixMicro(1006),
		})
	}
	if err := errors.Join(err, said.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	said.Say("nor this")
}

// A collector has each line and each failed rollout, of the run and of trinity sync.
func TestOtelSendsLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "monitor")
	s := newOtel(t, t.TempDir(), &faults{next: []string{"500", "", "loses the request"}})
	says(t, dir, []string{"mode both", "WARNING: all rewards\nare equal"}, 3)
	monitors, said := followed(t, dir, "otel", s.args)
	for _, m := range monitors {
		logAll(t, m, rec("trainer", 1, trinity.Metrics{"actor/lr": 1}))
	}
	end(t, monitors, Stopped)
	says(t, dir, []string{"resumes"}, 5)
	monitors, again := followed(t, dir, "otel", s.args)
	end(t, monitors, Finished)
	says(t, dir, []string{"the end"})
	for range 2 {
		if n, err := Sync(t.Context(), dir, "otel", s.args, nil); n != 0 || err != nil {
			t.Errorf("sync: %d, %v", n, err)
		}
	}
	want := points{
		"INFO trinity.said mode both": 1, "WARN trinity.said WARNING: all rewards are equal": 1, "INFO trinity.said resumes": 1,
		"INFO trinity.said the end": 1, "WARN trinity.rollout.failed no such tool \ufffd": 2,
		"INFO trinity.rollout.dropped dropped by advantage": 2,
		"WARN trinity.run.ended the run has been stopped":   1,
		"INFO trinity.run.ended the run has finished":       2, // trinity sync begins the run there once more
	}
	if got := s.logs(); !maps.Equal(got, want) {
		t.Errorf("the collector has %v, want %v", got, want)
	}
	if strings.Contains(said()+again(), "trinity sync") {
		t.Errorf("said %q", said()+again())
	}
}

// A collector without logs gets none, and all else.
func TestOtelWithoutLogs(t *testing.T) {
	metrics := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/logs" {
			http.NotFound(w, r)
		} else {
			metrics++
		}
	}))
	defer server.Close()
	for want, logs := range map[string]bool{"": false, "404 Not Found: 404 page not found: the collector gets no logs": true} {
		dir := filepath.Join(t.TempDir(), "monitor")
		says(t, dir, []string{"a line"}, 1)
		monitors, said := followed(t, dir, "otel", map[string]any{"endpoint": server.URL, "logs": logs})
		for _, m := range monitors {
			logAll(t, m, rec("trainer", 1, trinity.Metrics{"actor/lr": 1}))
		}
		end(t, monitors, Finished)
		if got := said(); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "trinity sync") {
			t.Errorf("said %q", got)
		}
	}
	if metrics != 2 {
		t.Errorf("%d requests with metrics", metrics)
	}
}

// A collector that refuses spans and logs goes on getting metrics while the run lives.
func TestOtelRefusesAllButMetrics(t *testing.T) {
	var refused atomic.Int32
	metrics := make(chan bool, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/metrics" {
			metrics <- true
			return
		}
		refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "monitor")
	says(t, dir, []string{"a line"}, 1)
	spans(t, dir, 1)
	monitors, said := followed(t, dir, "otel", map[string]any{"endpoint": server.URL})
	for step := range 3 {
		for _, m := range monitors {
			logAll(t, m, rec("trainer", int64(step+1), trinity.Metrics{"actor/lr": 1}))
		}
		select {
		case <-metrics:
		case <-time.After(time.Minute):
			t.Fatalf("the metrics of step %d do not come; said %q", step+1, said())
		}
	}
	end(t, monitors, Finished)
	if n := refused.Load(); n != 2 || strings.Count(said(), "gets no more") != 2 || strings.Count(said(), "trinity sync") != 2 {
		t.Errorf("%d requests were refused; said %q", n, said())
	}
}

// A collector that refuses some log records does not get the line that says so for ever.
func TestOtelRefusesSomeLogs(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/logs" && asked.Add(1) < 100 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedLogRecords":"1"}}`)
		}
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "monitor")
	said := Messages{To: func(string) {}}
	if err := said.Keep(dir); err != nil {
		t.Fatal(err)
	}
	said.Say("a line")
	monitors, err := Open([]string{"otel"}, map[string]any{"endpoint": server.URL}, Run{Dir: dir, Say: said.Say})
	if err != nil {
		t.Fatal(err)
	}
	end(t, monitors, Finished)
	if err := said.Close(); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n > 4 { // the line, what the run says of it, and the end
		t.Errorf("the collector got %d requests with logs", n)
	}
}

// The log record of a failed rollout belongs to the rollout's span.
func TestOtelLogsBelongToSpans(t *testing.T) {
	o := &otel{run: Run{ID: "r"}}
	span := parseFields(t, o.span(3, trace.Span{Role: "explorer", Kind: trinity.SpanRollout, ID: "1/a/2/0", Step: 1}))
	log := parseFields(t, o.log(3, LogRecord{Failure: &trace.Failure{Role: "explorer", ID: "1/a/2/0", Step: 1}}))
	if string(span.bytes[1]) != string(log.bytes[9]) || string(span.bytes[2]) != string(log.bytes[10]) || len(log.bytes[10]) != 8 {
		t.Errorf("the span is %x %x, the log record of %x %x", span.bytes[1], span.bytes[2], log.bytes[9], log.bytes[10])
	}
}

func TestModelNames(t *testing.T) {
	for path, want := range map[string]string{
		"/data/models/SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct.Q4_1", "Qwen/Qwen2.5-0.5B": "Qwen/Qwen2.5-0.5B", "": "",
		"/root/.cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0123": "Qwen/Qwen2.5-0.5B", "./tiny": "tiny", "../tiny/": "tiny",
		"m": "m", "models/tiny.gguf": "tiny", "/models/tiny": "tiny", "~/tiny": "tiny",
	} {
		if got := modelName(path); got != want {
			t.Errorf("%q is called %q, want %q", path, got, want)
		}
	}
}

// What answers in another language is no collector, and a collector may refuse some of what it gets.
func TestOtelReadsTheAnswer(t *testing.T) {
	for name, c := range map[string]struct{ kind, body, traces, fails, says string }{
		"nothing":          {"", "", "", "", ""},
		"protobuf":         {"application/x-protobuf", "\x0a\x00", "", "", ""},
		"refused":          {"application/x-protobuf", "\x0a\x07\x08\x02\x12\x03old", "", "", "refuses 2 of 1 metrics: old"},
		"JSON":             {"application/json", `{"partialSuccess":{}}`, "", "", ""},
		"refused, in JSON": {"application/json; x=y", `{"partialSuccess":{"rejectedDataPoints":"2"}}`, "", "", "refuses 2 of 1 metrics"},
		"a page":           {"text/html", "<p>hi", "", "is not OTLP: its type is text/html: <p>hi", ""},
		"a word":           {"", "hi", "", "is not OTLP", ""},
		"bytes":            {"application/x-protobuf", "OK", "", "is not OTLP", ""},
		"damaged inside":   {"application/x-protobuf", "\x0a\x01\x08", "", "is not OTLP", ""},
		"a number in JSON": {"application/json", "7", "", "is not OTLP", ""},
		"no spans":         {"", "", "404 page not found", "", "404 Not Found: 404 page not found: the collector gets no spans"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.traces != "" && r.URL.Path == "/v1/traces" {
					http.Error(w, c.traces, http.StatusNotFound)
					return
				}
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "monitor")
			args := map[string]any{"endpoint": server.URL, "spans": c.traces != ""}
			monitors, said := followed(t, dir, "otel", args)
			spans(t, dir, 1)
			for _, m := range monitors {
				logAll(t, m, rec("trainer", 1, trinity.Metrics{"actor/lr": 1}))
			}
			end(t, monitors, Finished)
			if want := c.fails + c.says; !strings.Contains(said(), want) || want == "" && said() != "" {
				t.Errorf("it says %q, want %q", said(), want)
			}
			if missing := strings.Contains(said(), "trinity sync"); missing != (c.fails != "") {
				t.Errorf("records are missing: %v; it says %q", missing, said())
			}
		})
	}
}
