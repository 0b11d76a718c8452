package torch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/model"
)

// Names of number types in this program.
const (
	f32  = "f32"
	bf16 = "bf16"
)

// How ranks hold the weights.
const (
	shards = "fsdp2"
	copies = "ddp"
)

// torchTypes are the names of number types in PyTorch.
var torchTypes = map[string]string{f32: "float32", bf16: "bfloat16"}

// workerModel is a model of a worker. It implements engine.Publisher, trainer.Cutter and
// trainer.Distiller. Concurrent calls run one after another.
type workerModel struct {
	worker  *worker
	args    *args
	release func() error // ends the worker if this is its last engine
	spec    engine.TrainerSpec
	cfg     *model.Config
	whole   bool     // its layers carry state along a row, so each sequence is computed whole
	name    string   // of the model in the worker
	tag     *loraTag // what a state has of the adapter
	base    string   // the frozen model of the worker whose adapter it trains; "" if it has its own

	mu           *sync.Mutex // tenants of a base have the same
	frozen       string      // the model that holds the reference weights; "" if there is none or an adapter is trained
	teachers     map[string]*workerModel
	closed       bool
	steps        int64 // optimizer steps done
	accumulating bool  // ForwardBackward added a gradient since the last OptimStep
	plan         plan  // of the weights that are sent
	version
}

var (
	_ engine.Publisher = (*workerModel)(nil)
	_ engine.Discarder = (*workerModel)(nil)
)

var errClosed = errors.New("torch: the engine is closed")

// load makes the worker load the model, and the frozen reference beside it.
func (e *workerModel) load(ctx context.Context) error {
	a := e.args
	of := ""
	if e.base != "" {
		of = filepath.Join(e.worker.dir, e.base)
	}
	f, err := prepare(filepath.Join(e.worker.dir, e.name), of, e.spec)
	if err != nil {
		return err
	}
	e.cfg, e.tag = f.cfg, f.tag
	if err := cmp.Or(a.checkVision(f.cfg, &e.spec), checkReplay(f.cfg, &e.spec)); err != nil {
		return err
	}
	path, err := filepath.Abs(f.model)
	if err != nil {
		return err
	}
	both := e.worker.common(a, path, &e.spec)
	spec, frozen := maps.Clone(both), maps.Clone(both)
	dtype := torchTypes[cmp.Or(e.spec.DType, f32)]
	spec["head"], spec["lora"], spec["param_offload"] = e.spec.Head, f.lora, e.spec.ParamOffload
	frozen["dtype"], frozen["compute"], frozen["param_offload"] = dtype, dtype, e.spec.ReferenceOffload
	if !e.spec.Train {
		spec["dtype"], spec["compute"] = dtype, dtype
	} else {
		o := e.spec.Optimizer
		spec["train"], spec["keep"], spec["compute"] = true, e.spec.Ahead, e.worker.compute(a)
		spec["optimizer"] = map[string]any{"type": optimizerOf(o), "momentum": o.Momentum, "nesterov": o.Nesterov}
		spec["optimizer_offload"] = e.spec.OptimizerOffload
		frozen["compute"] = spec["compute"]
		spec["recompute"] = a.recomputed(f.cfg, &e.spec)
		if a.trainsVision(f.cfg, &e.spec) {
			spec["vision"] = true
		}
	}
	if e.base != "" {
		spec["base"] = e.base
	}
	if err := e.open(ctx, e.name, message{f.head, map[string]any{"spec": spec}}); err != nil {
		return err
	}
	if e.spec.Reference && e.spec.LoRA == nil {
		e.frozen = e.name + "-reference"
		return e.open(ctx, e.frozen, message{nil, map[string]any{"spec": frozen}})
	}
	return nil
}

// common is what the worker is told of all models.
func (w *worker) common(a *args, path string, spec *engine.TrainerSpec) map[string]any {
	all := map[string]any{"path": path, "chunk": a.HeadRows, "strategy": strategyOf(*spec), "compile": w.compiles(spec)}
	if n := tensorOf(*spec); n > 1 {
		all["tensor"] = n
	}
	if spec.Replay {
		all["replay"] = true
	}
	if n := sequenceOf(*spec); n > 1 {
		all["sequence"] = n
	}
	if spec.Gathered {
		all["gathered"] = true
	}
	return all
}

// recomputed is how many layers compute their activations again.
func (a *args) recomputed(cfg *model.Config, spec *engine.TrainerSpec) int {
	if a.Recompute {
		return cfg.NumLayers
	}
	return spec.Recompute
}

// strategyOf returns the worker's name of the strategy.
func strategyOf(spec engine.TrainerSpec) string { return cmp.Or(spec.Strategy, shards) }

// compiles reports whether the worker compiles layers. On a CPU that takes longer than most runs gain, so a file must ask
// for it.
func (w *worker) compiles(spec *engine.TrainerSpec) bool {
	if spec.Compile != nil {
		return *spec.Compile
	}
	return w.device == "cuda"
}

// compute returns the type of the matrix products.
func (w *worker) compute(a *args) string {
	if a.Compute == bf16 || a.Compute == "auto" && w.device == "cuda" {
		return torchTypes[bf16]
	}
	return torchTypes[f32]
}

// open opens a model. The worker first reads a file that is written now: it must see this machine's
// files.
func (e *workerModel) open(ctx context.Context, name string, m message) error {
	witness, nonce := filepath.Join(e.worker.dir, "witness"), rand.Text()
	if err := durable.WriteFile(witness, []byte(nonce)); err != nil {
		return fmt.Errorf("torch: %w", err)
	}
	m.meta["witness"] = map[string]string{"file": witness, "nonce": nonce}
	r, err := e.worker.do(ctx, name, open, m)
	if err != nil {
		return fmt.Errorf("torch: opening %s: %w", e.spec.ModelPath, err)
	}
	e.whole = r.file.Metadata["shares"] == "false"
	return nil
}

// do sends a request about this model.
func (e *workerModel) do(ctx context.Context, verb string, m message) (reply, error) {
	return e.ask(ctx, e.name, verb, m)
}

// ask sends a request about a model of this engine.
func (e *workerModel) ask(ctx context.Context, name, verb string, m message) (reply, error) {
	if e.closed {
		return reply{}, errClosed
	}
	if e.base != "" { // a request that is given up ends the worker, which is that of other tenants, too
		ctx = context.WithoutCancel(ctx)
	}
	r, err := e.worker.do(ctx, name, verb, m)
	if err != nil {
		err = fmt.Errorf("torch: %s of %s: %w", verb, e.spec.ModelPath, err)
	}
	if lacksMemory(err) {
		err = newFootprint(e.cfg, e.spec, e.args).smaller(err)
	}
	return r, err
}

// streams returns the names of the wanted streams. It refuses those that the head does not compute.
func (e *workerModel) streams(want trinity.Streams) ([]string, error) {
	critic := e.spec.Head != engine.LogprobHead
	switch {
	case critic && (!want.Value || want.Entropy || want.Discriminator || want.Divergence.Kind != ""):
		return nil, errors.New("torch: an engine with a value head computes values only, " +
			"not log-probabilities, entropies or divergences: ask it for values")
	case !critic && want.Value:
		return nil, errors.New("torch: the loss needs values, but this engine has no value head: use an algorithm without a critic")
	case critic:
		return []string{"value"}, nil
	case want.Divergence.Kind != "" && len(e.teachers) == 0:
		return nil, fmt.Errorf("torch: the loss needs the divergence %s from a teacher, but the engine has no teachers: call SetTeachers",
			want.Divergence.Kind)
	}
	names := []string{"logprob"}
	for _, s := range []struct {
		name   string
		wanted bool
	}{{"entropy", want.Entropy}, {"discriminator", want.Discriminator}, {"divergence", want.Divergence.Kind != ""}} {
		if s.wanted {
			names = append(names, s.name)
		}
	}
	return names, nil
}

// check refuses batches that cannot be computed.
func (e *workerModel) check(xs []*trinity.Experience) error {
	for _, x := range xs {
		err := x.Check()
		if err == nil {
			err = checkImages(x, e.cfg, e.spec.ModelPath)
		}
		if err != nil {
			return fmt.Errorf("torch: %w", err)
		}
		if e.spec.Replay && len(x.Experts) > 0 {
			if err := e.cfg.Mixture.Routes().Check(x.Experts, len(x.Tokens)); err != nil {
				return fmt.Errorf("torch: experience %s: %w", x.ID, err)
			}
		}
		for _, tokens := range [][]int32{x.Tokens, x.Targets} {
			for t, token := range tokens {
				if token < 0 || int(token) >= e.cfg.VocabSize {
					return fmt.Errorf("torch: experience %s: token %d at position %d is outside the vocabulary of %d", x.ID, token,
						t*len(x.Tokens)/len(tokens), e.cfg.VocabSize)
				}
			}
		}
	}
	return nil
}

// forward computes the streams of one micro-batch under a model of this engine.
func (e *workerModel) forward(ctx context.Context, name string, b *batch, want trinity.Streams, meta map[string]any) (
	stats []trinity.TokenStats, streams []string, answer reply, err error,
) {
	if streams, err = e.streams(want); err != nil {
		return nil, nil, answer, err
	}
	if want.Divergence.Kind != "" {
		if err := b.compare(e.teachers); err != nil {
			return nil, nil, answer, err
		}
		meta["divergence"], meta["beta"], meta["teachers"] = want.Divergence.Kind, want.Divergence.Beta, b.teachers
	}
	if e.closed {
		return nil, nil, answer, errClosed
	}
	if b.tokens > 0 {
		meta["streams"] = streams
		images, err := b.images(e.spec.Images)
		if err != nil {
			return nil, nil, answer, err
		}
		if answer, err = e.ask(ctx, name, "forward", message{append(b.arrays(), images...), meta}); err != nil {
			return nil, nil, answer, err
		}
	}
	stats, err = b.stats(streams, answer)
	return stats, streams, answer, err
}

// Forward implements engine.Trainer.
func (e *workerModel) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if want.Score || e.spec.Head == engine.ScoreHead {
		return e.scores(ctx, b, want)
	}
	return e.score(ctx, e.name, b, want, false)
}

// Reference implements engine.Trainer. With an adapter it is the model with the adapter off.
func (e *workerModel) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	switch {
	case e.spec.LoRA != nil:
		return e.score(ctx, e.name, b, trinity.Streams{}, true)
	case e.frozen == "":
		return nil, errors.New("torch: the engine was opened without a reference")
	}
	return e.score(ctx, e.frozen, b, trinity.Streams{}, false)
}

// score computes the streams of a whole batch under a model of this engine, in micro-batches.
func (e *workerModel) score(ctx context.Context, name string, b *trinity.Batch, want trinity.Streams, reference bool) (
	[]trinity.TokenStats, error,
) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.check(b.Experiences); err != nil {
		return nil, err
	}
	var all []trinity.TokenStats
	for _, piece := range e.Cut(b.Experiences, 1) {
		stats, _, _, err := e.forward(ctx, name, newBatch(piece, e), want, map[string]any{"reference": reference})
		if err != nil {
			return nil, err
		}
		all = append(all, stats...)
	}
	return all, nil
}

// SetTeachers implements trainer.Distiller.
func (e *workerModel) SetTeachers(teachers map[string]engine.Trainer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	if e.spec.Head != engine.LogprobHead {
		return errors.New("torch: an engine with a value head or a score head has no distribution to compare with a teacher's")
	}
	all := map[string]*workerModel{}
	for _, name := range slices.Sorted(maps.Keys(teachers)) {
		t, ok := teachers[name].(*workerModel)
		switch {
		case !ok || t.worker != e.worker:
			return fmt.Errorf("torch: teacher %q is a %T: this engine compares only with teachers of its own worker", name, teachers[name])
		case t == e:
			return fmt.Errorf("torch: teacher %q is the engine that is trained: open its model a second time, for forward passes", name)
		case t.spec.Head != engine.LogprobHead:
			return fmt.Errorf("torch: teacher %q has no vocabulary projection", name)
		case t.cfg.VocabSize < e.cfg.VocabSize:
			return fmt.Errorf("torch: teacher %q has a vocabulary of %d, its student one of %d: a teacher must know every token of the student",
				name, t.cfg.VocabSize, e.cfg.VocabSize)
		}
		all[name] = t
	}
	e.teachers = all
	return nil
}

// Close drops the model. The worker ends with its last engine.
func (e *workerModel) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return errors.Join(e.drop(), e.release())
}

// drop makes the worker drop the model and the reference beside it, also those that it has not opened.
func (e *workerModel) drop() error {
	for _, name := range []string{e.name, e.frozen} {
		if name != "" {
			_, _ = e.worker.do(context.Background(), name, drop, message{}) // a worker that has failed ends anyway
		}
	}
	return os.RemoveAll(filepath.Join(e.worker.dir, e.name))
}
