package torch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
)

// rank is a process that stands for a rank of a server.
type rank struct {
	t    *testing.T
	to   *json.Encoder
	from *bufio.Scanner
}

func newRank(t *testing.T) *rank {
	t.Helper()
	work, err := filepath.Abs(filepath.Join("..", "..", "python", "trinity_worker"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Getenv("TRINITY_TORCH_PYTHON"), filepath.Join(work, "tests", "receive.py"))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+work)
	in, failed := cmd.StdinPipe()
	out, failed2 := cmd.StdoutPipe()
	if failed != nil || failed2 != nil {
		t.Fatal(failed, failed2)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	r := &rank{t, json.NewEncoder(in), bufio.NewScanner(out)}
	r.from.Buffer(nil, 1<<20)
	r.answer()
	return r
}

func (r *rank) ask(words ...any) {
	r.t.Helper()
	if err := r.to.Encode(words); err != nil {
		r.t.Fatal(err)
	}
}

// answer returns the tensors that the rank has received, as type, shape and digest.
func (r *rank) answer() (all map[string][]any) {
	r.t.Helper()
	if !r.from.Scan() {
		r.t.Fatal("the rank has ended")
	}
	if err := json.Unmarshal(r.from.Bytes(), &all); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// The worker sends what it would write as files, on one rank and on two, also when newer weights are
// trained.
func TestSendsTheOfferedVersion(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		p := onRanks(t, ranks)
		e := opened(t, p, trained("qwen2")).(*workerModel)
		if _, err := e.OpenChannel(t.Context(), engine.ChannelSpec{}); err == nil || !strings.Contains(err.Error(), "no version was published") {
			t.Errorf("a channel for no version: %v", err)
		}
		dir := t.TempDir()
		b := randomBatch(64)
		step := func() {
			if _, err := e.ForwardBackward(t.Context(), b, mixed{trinity.Streams{}}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-6}); err != nil {
				t.Fatal(err)
			}
		}
		step()
		if err := e.Offer(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := e.SaveModel(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		step()
		server := newRank(t)
		c, err := e.OpenChannel(t.Context(), engine.ChannelSpec{
			Version: 1, Transport: "gloo", Group: "g", Peer: "127.0.0.1", Ranks: 1, Announced: true, DType: "float32", Limit: 20000,
			Timeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		host, port := c.Address()
		server.ask("join", map[string]any{"transport": "gloo", "group": "g", "address": host, "port": port, "world": 2}, 0, true)
		if err := c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		server.answer()
		got := map[string][]any{}
		for i, bucket := range c.Buckets() {
			server.ask("bucket", bucket, map[string]any{})
			if _, err := c.Send(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			for name, tensor := range server.answer() {
				got[name] = tensor
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		file, err := safetensors.Open(filepath.Join(dir, safetensors.SingleName))
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(file.Names(), func(name string) bool { // some releases of transformers write a head that is the embedding
			return name == "lm_head.weight"
		})
		for _, name := range names {
			tensor, _ := file.Tensor(name)
			sum := sha256.Sum256(tensor.Data)
			if len(got[name]) != 3 || got[name][2] != hex.EncodeToString(sum[:]) {
				t.Errorf("%d ranks: %s arrived as %v", ranks, name, got[name])
			}
		}
		if len(c.Buckets()) < 2 || len(got) != len(names) {
			t.Errorf("%d ranks: %d tensors in %d buckets, the file has %d", ranks, len(got), len(c.Buckets()), len(names))
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What goes wrong on the side of a server is an error of the delivery. The worker trains on, and so it
// does when the deadline of the delivery passes.
func TestFailedSendsKeepTheWorker(t *testing.T) {
	fails := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		request, err := decode(body)
		var stage string
		if err == nil {
			err = request.value("stage", &stage)
		}
		if err != nil {
			t.Error(err)
		}
		meta := map[string]any{"buckets": []any{[]any{[]any{"w", "bfloat16", []int{2, 3}}}}, "address": "10.0.0.1", "port": 7}
		if fails {
			meta = map[string]any{"failed": "rank 1 of the server has not come within 5 s"}
		}
		body, err = message{meta: meta}.encode()
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	e := &workerModel{name: "m", mu: new(sync.Mutex), worker: &worker{
		base: server.URL, ranks: 1, timeout: time.Minute, gone: make(chan struct{}), device: "cuda",
		kill:   func() error { t.Error("the worker is ended"); return nil },
		client: retry.Client{MayPass: func(int) bool { return false }},
	}}
	e.version = version{Published: 3, HasPublished: true}
	c, err := e.OpenChannel(t.Context(), engine.ChannelSpec{Version: 3, Transport: "nccl", Ranks: 2, DType: "bfloat16", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	host, port := c.Address()
	b := c.Buckets()
	if host != "10.0.0.1" || port != 7 || len(b) != 1 || b[0][0].Name != "w" || b[0][0].DType != "bfloat16" || b[0][0].Shape[1] != 3 {
		t.Errorf("address %s %d, buckets %v", host, port, b)
	}
	fails = true
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Join(ended); err == nil || err.Error() != "torch: sending weights, join: rank 1 of the server has not come within 5 s" {
		t.Errorf("error %v", err)
	}
	if e.worker.broken != nil || e.worker.sequence != 3 {
		t.Errorf("after %d requests the worker is broken: %v", e.worker.sequence, e.worker.broken)
	}
	e.Published = 4
	for what, ask := range map[string]func() error{
		"a channel": func() error {
			_, err := e.OpenChannel(t.Context(), engine.ChannelSpec{Version: 3})
			return err
		},
		"a bucket": func() error {
			_, err := c.Send(t.Context(), 0)
			return err
		},
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "version 3 is gone") {
			t.Errorf("%s of the version before the offered one: %v", what, err)
		}
	}
	e.behind = true
	if _, err := e.OpenChannel(t.Context(), engine.ChannelSpec{}); err == nil || !strings.Contains(err.Error(), "TrainerSpec.Ahead") {
		t.Errorf("a channel for weights that are gone: %v", err)
	}
}
