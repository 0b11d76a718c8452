package torch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Trainers.Register("torch",
		"PyTorch on this machine's GPUs or CPU: fully sharded data parallel (FSDP2), AdamW, SGD and LoRA. It needs a Python with "+
			"torch, transformers and safetensors, and peft for an adapter; docs/guide/gpu.md says how to begin.", newPlugin)
	registry.Trainers.Register("verl", "The trainer of Trinity-RFT's configurations: another name of torch.", newPlugin)
}

func newPlugin() engine.TrainerOpener {
	return &plugin{args: args{Python: "python3", Compute: "auto", Vision: frozenVision, HeadRows: 256, Timeout: 3600}}
}

// args are the arguments of the plug-in.
type args struct {
	Python    string            `yaml:"python" required:"name one, such as python3" doc:"with torch, transformers, safetensors, peft"`
	Env       map[string]string `yaml:"env" secret:"true" doc:"environment variables of the worker besides those of the run"`
	Compute   string            `yaml:"compute_dtype" enum:"auto|f32|bf16" doc:"of products; weights are f32. auto: bf16 on GPUs, f32 on CPUs"`
	Recompute bool              `yaml:"recompute" doc:"compute activations again in the backward pass: less memory, more time"`
	Vision    string            `yaml:"vision" enum:"frozen|trained" doc:"whether what makes features of images is trained, too"`
	HeadRows  int               `yaml:"head_rows" range:"[1,)" doc:"tokens whose logits exist at once"`
	Timeout   int               `yaml:"timeout" range:"[1,)" doc:"seconds until the worker must have answered a request"`
}

// Validate requires values that can work.
func (a *args) Validate() error {
	for name, value := range a.Env {
		if err := process.CheckVariable(name, value); err != nil {
			return fmt.Errorf("env: %w", err)
		}
	}
	return nil
}

// plugin opens engines. They share a worker.
type plugin struct {
	args `yaml:",inline"`

	mu     sync.Mutex
	worker *worker // nil if no engine is open
	open   int     // engines
	named  int     // models so far
}

// SeesImages says that experiences may have images.
func (*plugin) SeesImages() {}

// OpenTrainer implements engine.TrainerOpener. The first engine starts the worker.
func (p *plugin) OpenTrainer(ctx context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worker == nil {
		w, err := startWorker(ctx, &p.args, &spec)
		if err != nil {
			return nil, err
		}
		p.worker = w
	}
	p.open++
	p.named++
	e := &workerModel{
		worker: p.worker, name: fmt.Sprintf("model%d", p.named), spec: spec, args: &p.args, mu: new(sync.Mutex), release: p.release,
	}
	if err := e.load(ctx); err != nil {
		return nil, errors.Join(err, e.drop(), p.giveBack())
	}
	return e, nil
}

// Programs returns the worker that the first engine starts.
func (p *plugin) Programs(spec engine.TrainerSpec) []engine.Program {
	return []engine.Program{p.program(spec.Place, "", spec.LoRA != nil)}
}

// release ends the worker after its last engine.
func (p *plugin) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.giveBack()
}

func (p *plugin) giveBack() error {
	if p.open--; p.open > 0 {
		return nil
	}
	w := p.worker
	p.worker = nil
	return w.close()
}

// checkSpec refuses what this engine does not train, before anything is started.
func checkSpec(spec engine.TrainerSpec) error {
	switch o := spec.Optimizer; {
	case spec.Head != engine.LogprobHead && spec.Head != engine.ValueHead && spec.Head != engine.ScoreHead:
		return fmt.Errorf("torch: head %q; expected %q, %q or none", spec.Head, engine.ValueHead, engine.ScoreHead)
	case spec.Head != engine.LogprobHead && spec.LoRA != nil:
		return errors.New("torch: a critic or a reward model has no adapter here: all its weights are trained")
	case spec.Head != engine.LogprobHead && spec.Reference:
		return errors.New("torch: a critic or a reward model has no log-probabilities, and so no reference")
	case spec.Train && !trains(optimizerOf(o)):
		return fmt.Errorf("torch: optimizer %s; expected %s or %s", o.Type, engine.AdamW, engine.SGD)
	case spec.DType != "" && spec.DType != f32 && spec.DType != bf16:
		return fmt.Errorf("torch: dtype %q; expected f32 or bf16", spec.DType)
	}
	return nil
}

// OpenScorer implements engine.TrainerOpener.
func (p *plugin) OpenScorer(ctx context.Context, spec engine.TrainerSpec) (trinity.Scorer, error) {
	cfg, err := model.ReadConfig(spec.ModelPath)
	switch {
	case err != nil:
		return nil, err
	case cfg.Head != model.SequenceClassification:
		return nil, fmt.Errorf("torch: %s is no reward model: it is a model %s", spec.ModelPath, cfg.Head)
	case cfg.NumLabels != 1:
		return nil, fmt.Errorf("torch: reward model %s has %d labels; this engine computes one: set trainer.trainer_type to cpu", spec.ModelPath,
			cfg.NumLabels)
	}
	spec.Head = engine.ScoreHead
	e, err := p.OpenTrainer(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &scorer{e}, nil
}

// PythonPackage returns the package whose version trinity doctor reports.
func (*plugin) PythonPackage() string { return modules[0] }

// Describe implements engine.TrainerOpener.
func (p *plugin) Describe() string { return "PyTorch of " + p.Python }
