package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	wire "github.com/trinity-go/trinity/internal/wire/files"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

// mostProof is the share of a delivery that hashing and proof may take.
const mostProof = 1.0 / 3

// deliveryLen are the tokens of the longest sequence that the servers of a delivery take.
const deliveryLen = 64

// delivered are the seconds of a delivery by phase. Their sum is the whole.
type delivered struct {
	Write    float64 `json:"write"`    // the engine writes the version
	Transfer float64 `json:"transfer"` // the server fetches its files; 0 if it reads those of the engine
	Load     float64 `json:"load"`
	Hash     float64 `json:"hash"`  // of the files, by all who hash them
	Prove    float64 `json:"prove"` // trainer and server score the probe
}

// proof is the share that hashing and proof take.
func (d *delivered) proof() float64 {
	return (d.Hash + d.Prove) / (d.Write + d.Transfer + d.Load + d.Hash + d.Prove)
}

func (d *delivered) String() string {
	return fmt.Sprintf("write %s, transfer %s, load %s, hash %s, prove %s s; hash and proof %s",
		number(d.Write), number(d.Transfer), number(d.Load), number(d.Hash), number(d.Prove), percent(d.proof()))
}

// way is how versions reach a server, by the name of its workload.
type way struct {
	engine string // plug-in of the sampler
	lora   bool
	hashes int // times that the files of a version are hashed
	fake   func(server.Host, trinity.Sampler, server.Options) *server.Fake
}

var deliveryWays = map[string]way{
	"delivery_vllm_reload": {engine: "vllm", fake: server.VLLM},
	"delivery_vllm_files":  {engine: "vllm", hashes: 2, fake: server.VLLM}, // the run lists them, the server checks them
	"delivery_vllm_lora":   {engine: "vllm", lora: true, fake: server.VLLM},
	"delivery_sglang":      {engine: "sglang", fake: server.SGLang},
}

// deliveryBy is the workload of a way. Its fake servers compute with the embedded engine.
func deliveryBy(name string) workload {
	return workload{name: name, model: true, unit: "s", rows: 1, prompt: 32, proof: mostProof, ours: newDelivery, rivals: []rival{
		{name: "copying the bytes", program: "ourselves", differs: func(a *assignment) { a.Copied = true }}}}
}

// deliveries are versions of an engine that trains, which a server loads and proves.
type deliveries struct {
	way
	engine engine.Trainer
	loss   trinity.Loss
	batch  []*trinity.Experience
	dir    string
	copied bool

	sync  weights.Synchronizer
	relay *relay
	told  trinity.Metrics // of the newest version
}

func newDelivery(a *assignment) (task, error) {
	d := &deliveries{
		way: deliveryWays[a.Workload], dir: a.Dir, copied: a.Copied, batch: []*trinity.Experience{allTrained(0, a.Train[:a.Prompt+1])},
	}
	var err error
	if d.loss, err = sftLoss(); err != nil {
		return nil, err
	}
	if d.engine, err = d.open(a.Model, "", true); err != nil {
		return d, err
	}
	if d.copied {
		return d, errors.Join(os.MkdirAll(d.written(), 0o755), d.engine.SaveModel(context.Background(), d.written()), d.engine.Close())
	}
	return d, d.connect(a)
}

// open opens the embedded engine with a model and, unless adapter is empty, that adapter.
func (d *deliveries) open(path, adapter string, train bool) (engine.Trainer, error) {
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		return nil, err
	}
	spec := engine.TrainerSpec{ModelPath: path, Train: train, MicroTokens: deliveryLen, MaxModelLen: deliveryLen}
	spec.Optimizer.Type = engine.SGD // which needs little memory
	if d.lora {
		spec.LoRA = &engine.LoRASpec{Path: adapter, LoraRank: 16, LoraAlpha: 32, TargetModules: engine.Names{"all-linear"}}
	}
	return opener.OpenTrainer(context.Background(), spec)
}

// connect connects the engine with the server, as a run does.
func (d *deliveries) connect(a *assignment) error {
	address := a.Server
	if address == "" {
		fake, err := d.serve(a)
		if err != nil {
			return err
		}
		address = fake.URL
	}
	var err error
	if d.relay, err = newRelay(address); err != nil {
		return err
	}
	opener, err := registry.Samplers.Build(d.way.engine)
	if err != nil {
		return err
	}
	spec := engine.SamplerSpec{
		ModelPath: a.Model, MaxSequences: 8, MaxModelLen: deliveryLen, Servers: []string{d.relay.web.URL}, Follows: true, Patience: time.Minute,
	}
	if d.lora {
		spec.LoRA = &engine.LoRASpec{LoraRank: 16}
	}
	sampler, err := opener.OpenSampler(context.Background(), spec)
	if err != nil {
		return err
	}
	cfg, err := model.ReadConfig(a.Model)
	if err != nil {
		return err
	}
	directory, err := weights.Ways.Build("directory")
	if err != nil {
		return err
	}
	d.sync, err = directory.Open(context.Background(), weights.Link{
		Engine: d.engine, Sampler: sampler, Current: true, Handover: weights.AtOnce, Timeout: 10 * time.Minute, Dir: d.dir,
		Probe: &weights.Probe{Vocab: cfg.VocabSize, Length: deliveryLen},
		Say:   func(line string) { fmt.Fprintln(os.Stderr, line) },
		Report: func(_ context.Context, _ int64, m trinity.Metrics) error {
			d.told = m
			return nil
		},
	})
	return err
}

// serve starts a fake server that computes with the model.
func (d *deliveries) serve(a *assignment) (*server.Fake, error) {
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, err
	}
	cfg, err := model.ReadConfig(a.Model)
	if err != nil {
		return nil, err
	}
	spec := engine.SamplerSpec{ModelPath: a.Model, MaxSequences: 2, MaxModelLen: 2 * deliveryLen}
	sampler, err := opener.OpenSampler(context.Background(), spec)
	if err != nil {
		return nil, err
	}
	fake := d.fake(host(a.Dir), sampler, server.Options{
		Vocab: cfg.VocabSize, MaxLen: deliveryLen, Develops: true, LoRA: d.lora, MaxRank: 16, Fetches: d.hashes > 0,
	})
	fake.Open = func(_ context.Context, dir string) (engine.Trainer, error) {
		if d.lora {
			return d.open(a.Model, dir, false)
		}
		return d.open(dir, "", false)
	}
	return fake, nil
}

// run trains a step, which is not timed, and delivers its version.
func (d *deliveries) run(number int) (sample, error) {
	if d.copied {
		return d.copyOne()
	}
	ctx := context.Background()
	whole := &trinity.Batch{Step: int64(number + 1), Experiences: d.batch, Whole: d.batch}
	if _, err := d.engine.ForwardBackward(ctx, whole, d.loss); err != nil {
		return sample{}, err
	}
	if _, err := d.engine.OptimStep(ctx, trinity.OptimParams{LR: 0.01}); err != nil {
		return sample{}, err
	}
	start := time.Now()
	if err := d.sync.Publish(ctx, int64(number+1)); err != nil {
		return sample{}, err
	}
	all := time.Since(start).Seconds()
	hash, err := d.hash(filepath.Join(d.dir, "weights", strconv.Itoa(number+1)))
	if err != nil {
		return sample{}, err
	}
	t := delivered{Write: d.told["sync/write"], Hash: hash * float64(d.hashes), Transfer: d.relay.take("/update_weights")}
	t.Load = d.told["sync/load"] - t.Transfer
	t.Prove = all - d.told["sync/write"] - d.told["sync/load"]
	if d.hashes > 0 { // the server hashes while it fetches, and the run before
		t.Transfer, t.Load = max(0, t.Transfer-hash), max(0, t.Load-hash)
	}
	return sample{Value: all, Delivered: &t}, nil
}

// copyOne copies the files of a version, onto the disk.
func (d *deliveries) copyOne() (sample, error) {
	start := time.Now()
	err := durable.WriteDir(filepath.Join(d.dir, "copied"), func(dir string) error { return os.CopyFS(dir, os.DirFS(d.written())) })
	return sample{Value: time.Since(start).Seconds()}, err
}

// written is the directory of the version that is copied.
func (d *deliveries) written() string { return filepath.Join(d.dir, "written") }

// hash returns the seconds that the digests of a directory take, if the way computes any.
func (d *deliveries) hash(dir string) (float64, error) {
	if d.hashes == 0 {
		return 0, nil
	}
	start := time.Now()
	_, _, err := wire.List(dir)
	return time.Since(start).Seconds(), err
}

// relay stands before a server and measures its replies by their paths.
type relay struct {
	web *httptest.Server

	mu   sync.Mutex
	took map[string]time.Duration
}

func newRelay(address string) (*relay, error) {
	to, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(address, "/"), "/v1"))
	if err != nil {
		return nil, err
	}
	c := &relay{took: map[string]time.Duration{}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	c.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // ends with the process
		start := time.Now()
		proxy.ServeHTTP(w, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.took[r.URL.Path] += time.Since(start)
	}))
	return c, nil
}

// take returns the seconds of the replies of a path since it was called last.
func (c *relay) take(path string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer delete(c.took, path)
	return c.took[path].Seconds()
}

// host is the directory of a process that keeps fake servers until its end.
type host string

func (host) Helper()        {}
func (host) Cleanup(func()) {}

// TempDir implements server.Host. The session removes the directory.
func (h host) TempDir() string { return string(h) }
