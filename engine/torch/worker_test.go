package torch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/registry"
)

// A worker that does not start is named with its launcher's error, and nothing of it is left.
func TestWorkersThatDoNotStart(t *testing.T) {
	dir := t.TempDir()
	_, err := startWorker(t.Context(), &args{Python: "/no/python"}, &engine.TrainerSpec{Place: here(t, 1), Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "starting trainer: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v; want one line that names the trainer", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left of the worker", left)
	}
}

// Requests, which bear the token, go to the worker itself if the environment names a proxy.
func TestNoProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request went to the proxy") }))
	t.Cleanup(proxy.Close)
	transport := http.DefaultTransport.(*http.Transport)
	before := transport.Proxy
	t.Cleanup(func() { transport.Proxy = before })
	transport.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	body, _ := message{}.encode()
	w := answering(t, func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write(body) })
	w.client = newClient()
	if _, err := w.do(t.Context(), "m", "step", message{}); err != nil {
		t.Error(err)
	}
}

// A worker of another protocol is refused.
func TestOtherProtocol(t *testing.T) {
	body, err := message{meta: map[string]any{"protocol": 7, "device": "cpu"}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	w := answering(t, func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write(body) })
	if err := w.greet(t.Context()); err == nil || !strings.Contains(err.Error(), "speaks protocol 7, this program 4") {
		t.Error(err)
	}
}

// answering is a worker whose server answers every request alike.
func answering(t *testing.T, answer http.HandlerFunc) *worker {
	t.Helper()
	w := replay(t, nil)
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	w.base = server.URL
	return w
}

func TestFailuresOfRequests(t *testing.T) {
	fail := func(code int, message string) http.HandlerFunc {
		return func(out http.ResponseWriter, _ *http.Request) {
			out.WriteHeader(code)
			_ = json.NewEncoder(out).Encode(map[string]string{"error": message})
		}
	}
	stuck := make(chan struct{}) // closed before the server of "hangs" is
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
		broken bool
	}{
		"refused": {fail(400, "lr is None"), "lr is None", false},
		"failed":  {fail(500, "RuntimeError: oh"), "RuntimeError: oh", true},
		"gap":     {fail(409, "Trinity-Seq is 3; expected 2"), "Trinity-Seq is 3", true},
		"hangs":   {func(http.ResponseWriter, *http.Request) { <-stuck }, "the worker has not answered step of m within timeout = 0.05 s", true},
		"gone":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := answering(t, c.answer)
			if name == "hangs" {
				w.timeout = 50 * time.Millisecond
				defer close(stuck)
			}
			killed := false
			w.kill = func() error { killed = true; return nil }
			_, err := w.do(t.Context(), "m", "step", message{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v; want %q", err, c.want)
			}
			w.base = "http://127.0.0.1:1" // nobody listens
			_, again := w.do(t.Context(), "m", "step", message{})
			if c.broken != (again == err) {
				t.Errorf("the next request gives %v; want the same error: %v", again, c.broken)
			}
			if wanted := name == "hangs" || name == "gone"; killed != wanted && c.broken {
				t.Errorf("the worker was ended: %v, want %v", killed, wanted)
			}
		})
	}
}

// If a rank fails, rank 0 may only see a broken connection; the end of the worker has the cause.
func TestFailureOfAnotherRank(t *testing.T) {
	w := replay(t, nil)
	gone := make(chan struct{})
	close(gone)
	w.ranks, w.grace, w.gone = 2, time.Minute, gone
	for want, last := range map[string]error{
		"connection closed by peer; the worker has ended: out of luck": errors.New("out of luck"),
		"rank 2 was killed (SIGKILL)":                                  errors.New("rank : 2 (local_rank: 2) exitcode : -9 (pid: 3) (SIGKILL)"),
	} {
		w.lastWords = func() error { return last }
		err := w.why(t.Context(), &retry.StatusError{Code: http.StatusInternalServerError, Message: "connection closed by peer"})
		if err.Error() != want {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// The end of torchrun names the rank that failed first.
func TestEndingNamesTheRank(t *testing.T) {
	const said = `exit status 1; it said: ValueError: oh Failures: [1]: rank : 0 (local_rank: 0) exitcode : 1 (pid: 23234) ` +
		`---- Root Cause (first observed failure): [0]: time : 2026 host : localhost rank : 1 (local_rank: 1) exitcode : `
	const other = " Root Cause [0]: rank : 0 (local_rank: 0) exitcode : 1 (pid: 6)"
	for text, want := range map[string]string{
		said + "-9 (pid: 23235) (SIGKILL) error_file: <N/A>": "rank 1 was killed (SIGKILL)",
		said + "3 (pid: 23235) error_file: <N/A>":            "the worker has ended, rank 1 first: exit status 1; it said: ValueError: oh",
		"signal: killed": "the worker has ended: signal: killed",
		// torchrun calls the rank the first that has only lost its connection
		"[1]: rank : 1 (local_rank: 1) exitcode : -9 (pid: 7) (SIGKILL)" + other:  "rank 1 was killed",
		"[1]: rank : 1 (local_rank: 1) exitcode : -15 (pid: 7) (SIGTERM)" + other: "the worker has ended, rank 0 first",
	} {
		if got := ending(errors.New(text)).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A worker that has ended is named with its last words, and no process of it is left.
func TestWorkerThatEnds(t *testing.T) {
	p, spec := realPlugin(t, nil), trained("llama")
	spec.Place = here(t, 2)
	e := opened(t, p, spec)
	if err := p.worker.kill(); err != nil {
		t.Fatal(err)
	}
	_, err := e.Forward(t.Context(), randomBatch(64), trinity.Streams{})
	if err == nil || !strings.Contains(err.Error(), "the worker has ended: ") {
		t.Errorf("%v; want the end of the worker", err)
	}
}

// The end of a context ends the worker, which may still compute, and the engine.
func TestCancelledRequest(t *testing.T) {
	p := realPlugin(t, nil)
	e := opened(t, p, trained("llama"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Forward(ctx, randomBatch(64), trinity.Streams{}); err == nil {
		t.Error("a cancelled request gave no error")
	}
	if _, err := e.Forward(t.Context(), randomBatch(64), trinity.Streams{}); err == nil {
		t.Error("the engine works after a request that may not have ended")
	}
}

func TestModelsThatAreRefused(t *testing.T) {
	scored, muon, lora, half, headed := rewarding("llama"), trained("llama"), trained("qwen2"), trained("llama"), trained("critic")
	scored.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 4}
	muon.Optimizer.Type = engine.Muon
	lora.LoRA, lora.Head, lora.Reference = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 4}, engine.ValueHead, false
	half.DType = "f16"
	for want, spec := range map[string]engine.TrainerSpec{
		"a reward model has no adapter": scored, "optimizer muon": muon, "a critic or a": lora, `dtype "f16"`: half,
	} {
		_, err := (&plugin{}).OpenTrainer(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := prepare(t.TempDir(), "", headed); err == nil || !strings.Contains(err.Error(), "no log-probabilities") {
		t.Errorf("a critic as a policy: %v", err)
	}
}

func TestArguments(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"compute_dtype: want auto, f32 or bf16": {"compute_dtype": "f16"},
		"env: ":                                 {"env": map[string]any{"A=B": "c"}},
		"python: name":                          {"python": ""},
		"timeout: must be at least 1":           {"timeout": 0},
		"head_rows: must be at least 1":         {"head_rows": -1},
		"unknown argument":                      {"gpus": 2},
	} {
		given := map[string]any{"python": "sh"}
		for k, v := range values {
			given[k] = v
		}
		if _, err := registry.Trainers.Build("torch", given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", values, err, want)
		}
	}
}

// States of the two engines are not mixed up.
func TestForeignState(t *testing.T) {
	dir := t.TempDir()
	text := `{"engine": "torch", "format": 1, "optimizer": "adamw"}`
	if err := os.WriteFile(filepath.Join(dir, stateName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := embedded(t, trained("llama"))
	if err := theirs.LoadState(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "is of the engine torch") {
		t.Errorf("the embedded engine: %v", err)
	}
	own := t.TempDir()
	if err := theirs.SaveState(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	e := &workerModel{spec: trained("llama")}
	if _, err := e.readState(own); err == nil || !strings.Contains(err.Error(), "is of another engine") {
		t.Errorf("this engine: %v", err)
	}
}

// A failure to read or write files names the directory.
func TestFailureNamesTheDirectory(t *testing.T) {
	w := answering(t, func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusInternalServerError) })
	dir := t.TempDir()
	text := `{"engine": "torch", "format": 1, "optimizer": "adamw"}`
	if err := os.WriteFile(filepath.Join(dir, stateName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &workerModel{worker: w, name: "m", spec: trained("llama"), mu: new(sync.Mutex)}
	for verb, do := range map[string]func(context.Context, string) error{"load": e.LoadState, "save": e.SaveModel} {
		if err := do(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v; want an error that names %s", verb, err, dir)
		}
	}
}

// If the reference does not open, the shared worker drops the policy too.
func TestReferenceThatDoesNotOpen(t *testing.T) {
	var asked []string
	w := answering(t, func(out http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "-reference") {
			out.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(out).Encode(map[string]string{"error": "no room"})
			return
		}
		body, _ := message{}.encode()
		_, _ = out.Write(body)
	})
	w.dir = t.TempDir()
	p := &plugin{worker: w, open: 1}
	spec := trained("llama")
	if _, err := p.OpenTrainer(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v; want the worker's error", err)
	}
	const model, reference = " /v1/models/model1", " /v1/models/model1-reference"
	want := []string{"PUT" + model, "PUT" + reference, "DELETE" + model, "DELETE" + reference}
	if !slices.Equal(asked, want) || p.open != 1 {
		t.Errorf("the worker was asked for %q with %d engines open; want %q and 1", asked, p.open, want)
	}
}

func FuzzReply(f *testing.F) {
	stream := safetensors.Float32s("logprob", []int{2}, []float32{1, 2})
	good, err := message{[]safetensors.Entry{stream}, map[string]any{"applied": true}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decode(body)
		if err != nil {
			return
		}
		var applied bool
		_ = r.value("applied", &applied)
		if v, err := r.stream("logprob", 2); err == nil && len(v) != 2 {
			t.Errorf("a stream of %d numbers, want 2", len(v))
		}
	})
}

// The ranks for which others wait are named.
func TestHangingRanks(t *testing.T) {
	waits := rankProgress{Rank: 0, Host: "a", Verb: "step", Place: "group.py:9", Waits: true}
	idle := rankProgress{Rank: 1, Host: "b", Waits: true}
	computes := rankProgress{Rank: 2, Host: "b", Verb: "step", Place: "model.py:7"}
	silent := rankProgress{Rank: 3, Host: "b", Verb: "step", Place: "model.py:7", Silent: 9.2}
	for want, ranks := range map[string][]rankProgress{
		"rank 3 on b has given no sign of life for 9 s":                                 {waits, idle, computes, silent},
		"rank 2 on b is still in step, at model.py:7":                                   {waits, idle, computes},
		"rank 0 on a waits for others at group.py:9; rank 1 on b waits for others at t": {waits, idle},
		"7; rank 2 on b is still in step, at model.py:7, and 2 more":                    slices.Repeat([]rankProgress{computes}, 6),
	} {
		if got := hanging(ranks); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Only a worker that trains an adapter needs peft.
func TestModulesOfAWorker(t *testing.T) {
	for adapter, want := range map[bool]string{
		false: "torch transformers safetensors numpy", true: "torch transformers safetensors numpy peft",
	} {
		if got := strings.Join((&args{}).program(engine.Place{Nodes: 1, Ranks: 1}, "", adapter).Modules, " "); got != want {
			t.Errorf("adapter %t: %q, want %q", adapter, got, want)
		}
	}
}
