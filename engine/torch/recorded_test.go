package torch

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/trinitytest"
)

var record = flag.Bool("record", false, "record the exchange with the real worker again")

// exchange is a request to the worker and its answer.
type exchange struct {
	Method, Path string
	Request      []byte // empty to open a model, because it names directories
	Code         int
	Reply        []byte
	Sequence     string
	LostOnce     bool `json:"-"` // the connection ends before the first answer
}

const recorded = "testdata/exchange.json.gz"

// recorder records what goes through a client.
type recorder struct{ exchanges []exchange }

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil || request.URL.Path == "/v1/alive" {
		return answer, err
	}
	reply, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	answer.Body = io.NopCloser(bytes.NewReader(reply))
	e := exchange{Method: request.Method, Path: request.URL.Path, Code: answer.StatusCode, Reply: reply}
	e.Sequence = request.Header.Get("Trinity-Seq")
	if request.Method != http.MethodPut {
		e.Request = body
	}
	r.exchanges = append(r.exchanges, e)
	return answer, nil
}

// replay answers as the recorded worker did.
func replay(t *testing.T, exchanges []exchange) *worker {
	t.Helper()
	var mu sync.Mutex
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(in.Body)
		if err != nil || next == len(exchanges) {
			t.Errorf("%s %s: %v; the recorded worker has no answer left", in.Method, in.URL.Path, err)
			return
		}
		e := &exchanges[next]
		if e.LostOnce {
			e.LostOnce = false
			panic(http.ErrAbortHandler) // the connection ends
		}
		next++
		if in.Method != e.Method || in.URL.Path != e.Path || in.Header.Get("Trinity-Seq") != e.Sequence {
			t.Errorf("%s %s number %s; the recorded request is %s %s number %s", in.Method, in.URL.Path, in.Header.Get("Trinity-Seq"),
				e.Method, e.Path, e.Sequence)
		}
		if e.Request != nil && !bytes.Equal(body, e.Request) {
			t.Errorf("%s %s: the body differs from the recorded one", e.Method, e.Path)
		}
		out.WriteHeader(e.Code)
		_, _ = out.Write(e.Reply)
	}))
	t.Cleanup(server.Close)
	return &worker{base: server.URL, ranks: 1, timeout: time.Minute, dir: t.TempDir(), gone: make(chan struct{}),
		kill: func() error { return nil }, client: retry.Client{Retries: 2, MayPass: func(int) bool { return false }}}
}

// readRecorded returns the recorded exchange.
func readRecorded(t *testing.T) (exchanges []exchange) {
	t.Helper()
	trinitytest.ReadRecorded(t, recorded, &exchanges)
	return exchanges
}

func writeRecorded(t *testing.T, exchanges []exchange) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(exchanges), z.Close(), os.MkdirAll(filepath.Dir(recorded), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The streams and steps of the real worker, recorded, agree with the embedded engine. With a Python
// that has torch, the worker of today must ask and answer as the recorded one; -record replaces it.
func TestRecordedWorkerAgreesWithTheEmbeddedEngine(t *testing.T) {
	spec := trained("qwen2")
	spec.Reference = false
	teach := func(t *testing.T, e *workerModel, p engine.TrainerOpener) {
		t.Helper()
		b := randomBatch(64)
		if err := e.SetTeachers(map[string]engine.Trainer{"": opened(t, p, tiny("llama"))}); err != nil {
			t.Fatal(err)
		}
		theirs := embedded(t, spec)
		agree(t, e, theirs, b, trinity.Streams{Entropy: true, Discriminator: true})
		if _, err := e.Forward(t.Context(), b, trinity.Streams{Divergence: trinity.Divergence{Kind: trinity.JSD, Beta: 0.5}}); err != nil {
			t.Fatal(err)
		}
		for _, trainer := range []engine.Trainer{e, theirs} {
			if _, err := trainer.ForwardBackward(t.Context(), b, mixed{trinity.Streams{Entropy: true}}); err != nil {
				t.Fatal(err)
			}
			p := trinity.OptimParams{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, WeightDecay: 0.01, ClipNorm: 1}
			if _, err := trainer.OptimStep(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		agree(t, e, theirs, b, trinity.Streams{})
	}
	t.Run("recorded", func(t *testing.T) {
		if *record {
			t.Skip("recording")
		}
		exchanges := readRecorded(t)
		exchanges[3].LostOnce, exchanges[5].LostOnce = true, true
		p := &plugin{args: args{Compute: "auto", HeadRows: 3}}
		p.worker, p.open = replay(t, exchanges), 1 // the worker is no process to end
		teach(t, opened(t, p, spec).(*workerModel), p)
	})
	t.Run("today's", func(t *testing.T) {
		p := realPlugin(t, map[string]any{"head_rows": 3})
		w, err := startWorker(t.Context(), &p.args, &engine.TrainerSpec{Place: here(t, 1), Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{}
		w.client.HTTP = &http.Client{Transport: r}
		p.worker, p.open = w, 1
		defer func() {
			if err := p.release(); err != nil {
				t.Error(err)
			}
		}()
		t.Run("", func(t *testing.T) { teach(t, opened(t, p, spec).(*workerModel), p) })
		if *record {
			writeRecorded(t, r.exchanges)
			return
		}
		old := readRecorded(t)
		if len(old) != len(r.exchanges) {
			t.Fatalf("%d requests, %d are recorded", len(r.exchanges), len(old))
		}
		for i, e := range r.exchanges {
			if e.Method != old[i].Method || e.Path != old[i].Path || !bytes.Equal(e.Request, old[i].Request) {
				t.Errorf("request %d, %s %s, is not the recorded one: run go test ./engine/torch -run Recorded -record", i, e.Method, e.Path)
			}
		}
	})
}
