package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/pipeline"
	"github.com/trinity-go/trinity/model/hub"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/run/checkpoint"
)

// stage is one stage of a run, wired.
type stage struct {
	reader
	madeWith    checkpoint.Made
	log         *recorder
	checkpoints checkpoint.Dir

	available    int64 // bytes of memory before anything was loaded
	rewardModels rewardModels
	juicer       *datajuicer.Service // nil where there is none

	engine  trinity.Engine
	critic  trinity.Engine // nil where none is trained
	sampler trinity.Sampler
	frozen  []trinity.Engine // of the teachers

	process *pipeline.Pipeline // of the explorer; nil without one
	queue   trinity.Buffer     // between explorer and trainer; nil without one
}

// open begins a stage whose models are on this machine; it loads no weights.
func open(cfg *Settled, say func(string)) (*stage, error) {
	if cfg.text == nil {
		return nil, fmt.Errorf("model %s has no tokenizer: a run needs one (tokenizer.json)", cfg.modelPath)
	}
	return &stage{
		reader: reader{Settled: cfg, say: say}, available: int64(Machine().Available), rewardModels: rewardModels{},
		checkpoints: checkpoint.Dir{Path: cfg.CheckpointJobDir, Keep: cfg.Trainer.MaxCheckpointsToKeep, Say: say},
	}, nil
}

// openEngine loads the weights.
func (s *stage) openEngine(ctx context.Context, train, sample bool) error {
	need, err := s.memoryOf(s.specs(train, sample), s.available)
	if err != nil {
		return err
	}
	spec := need.spec
	if n := spec.train.Recompute; n > 0 {
		s.say(fmt.Sprintf("the activations of %d layers are computed again in the backward pass, because memory is short", n))
	}
	spec.sample.Text = s.text.Decode
	if s.engine, s.sampler, err = s.engines.open(ctx, spec); err != nil {
		return err
	}
	if err := s.openCritic(ctx, spec.train); err != nil {
		return err
	}
	if !sample {
		return nil
	}
	return s.loadAdapters(ctx)
}

// loadAdapters gives the sampler the adapters that are not trained.
func (s *stage) loadAdapters(ctx context.Context) error {
	named := s.Model.SampledAdapters()
	loader, ok := s.sampler.(trinity.AdapterLoader)
	if len(named) > 0 && !ok {
		return fmt.Errorf("model.lora_configs: engine %s samples one adapter; leave out the others", s.Engines.Sample)
	}
	for _, l := range named {
		if err := loader.LoadAdapter(ctx, l.Name, l.Path, 0); err != nil {
			return fmt.Errorf("model.lora_configs: adapter %q: %w", l.Name, err)
		}
	}
	return nil
}

func loraSpec(configs []config.Lora) *trinity.LoRASpec {
	if len(configs) == 0 {
		return nil
	}
	return &configs[0].LoRASpec
}

// runner returns what runs groups of rollouts.
func (s *stage) runner() *explorer.Runner {
	return &explorer.Runner{
		Host: host{s}, Seed: uint64(s.Seed), Slots: explorer.NewSlots(s.Batch.Sequences), MaxRetries: s.Explorer.MaxRetryTimes,
		Timeout: seconds(s.Explorer.MaxTimeout), Greedy: s.algorithm.Needs().GreedyReward,
	}
}

// pipeline makes the operators and the advantage, unless that is the trainer's.
func (s *stage) pipeline(ctx context.Context) (_ *pipeline.Pipeline, err error) {
	cfg := &s.DataProcessor.ExperiencePipeline
	p := &pipeline.Pipeline{Advantage: s.algorithm.InPipeline(), Say: s.say}
	s.process = p
	if cfg.SaveInput {
		if p.Input, err = s.kept(ctx, s.InputCopy(), "input"); err != nil {
			return nil, err
		}
	}
	if cfg.OutputSavePath != "" {
		if p.Output, err = s.kept(ctx, cfg.OutputSavePath, "output"); err != nil {
			return nil, err
		}
	}
	for _, o := range cfg.Operators {
		op, err := registry.Operators.Build(o.Name, o.Args)
		if err != nil {
			return nil, err
		}
		if u, ok := op.(datajuicer.User); ok {
			u.UseService(s.juicer)
		}
		p.Operators = append(p.Operators, pipeline.Operator{Name: o.Name, Operator: op})
	}
	return p, nil
}

// evalTasksets opens all evaluation tasksets.
func (s *reader) evalTasksets(ctx context.Context) ([]*explorer.Taskset, error) {
	var out []*explorer.Taskset
	for i := range s.tasks {
		if t := &s.tasks[i]; t.Eval {
			ts, err := s.taskset(ctx, t)
			if err != nil {
				return nil, err
			}
			out = append(out, ts)
		}
	}
	return out, nil
}

// resolveDataset downloads a dataset that is on the hub.
func resolveDataset(ctx context.Context, name string) (string, error) {
	if !isHubDataset(name) {
		return "", fmt.Errorf("dataset %s: no such file or directory", name)
	}
	return hub.Pull(ctx, datasetName(name), hub.Options{})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// writeModel writes what transformers or PEFT loads, tokenizer files included, into dir.
func (s *stage) writeModel(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.engine.SaveModel(ctx, dir); err != nil {
		return err
	}
	if err := s.text.Tokenizer().WriteFiles(dir); err != nil {
		return err
	}
	return durable.Seal(dir)
}

// modelDir is where in a checkpoint the model or the adapter is.
func (s *Settled) modelDir() string {
	if len(s.Model.LoraConfigs) > 0 {
		return checkpoint.AdapterDir
	}
	return checkpoint.ModelDir
}

// close frees the engine and the monitors.
func (s *stage) close() error {
	err := errors.Join(s.closeEngine(), s.rewardModels.close())
	if s.log != nil {
		err = errors.Join(err, s.log.close())
	}
	if s.process != nil {
		err = errors.Join(err, s.process.Close())
	}
	if s.queue != nil {
		err = errors.Join(err, s.queue.Close())
	}
	return err
}

func (s *stage) closeEngine() error {
	var errs []error
	if c, ok := s.sampler.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	for _, e := range append(s.frozen, s.engine, s.critic) {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	s.engine, s.critic, s.sampler, s.frozen = nil, nil, nil, nil
	return errors.Join(errs...)
}
