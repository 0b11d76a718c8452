package cpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
	"github.com/trinity-go/trinity/modelfile/safetensors"
)

// openModel opens the model's file, or makes a random one of a directory that has only a config.
func openModel(opts Options) (*modelfile.Model, error) {
	if opts.InitStyle == "" || hasWeights(opts.ModelPath) {
		return modelfile.Open(opts.ModelPath)
	}
	cfg, err := modelfile.ReadConfig(opts.ModelPath)
	if err != nil {
		return nil, err
	}
	return modelfile.RandomInit(cfg, opts.InitSeed, opts.InitStyle)
}

func hasWeights(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return true // for modelfile.Open to judge
	}
	for _, name := range []string{safetensors.SingleName, safetensors.IndexName} {
		if _, err := os.Stat(filepath.Join(path, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// load takes the memory of weights, gradient and moments, and reads the weights.
func (e *Engine) load(source *modelfile.Model) error {
	c := e.cfg
	var err error
	if e.base, err = modelLayout(c); err != nil {
		return err
	}
	if e.baseFlat, err = e.arena.Float32(e.base.size); err != nil {
		return fmt.Errorf("cpu: weights: %w", err)
	}
	if err := readTensors(e.pool, e.base, e.baseFlat, source); err != nil {
		return err
	}
	if e.opts.DType == "bf16" {
		kernel.RoundToBF16(e.pool, e.baseFlat)
	}
	if e.opts.LoRA != nil {
		err = e.addAdapters()
	} else {
		err = e.trainAll()
	}
	if err != nil {
		return err
	}
	for _, v := range [][]float32{e.gradient, e.moment1, e.moment2} {
		kernel.Touch(e.pool, v)
	}
	if e.opts.KeepPublished {
		if e.publishedWeights, err = e.arena.Float32(len(e.trained)); err != nil {
			return fmt.Errorf("cpu: published weights: %w", err)
		}
	}
	return e.work.reserve(e, e.opts.MaxTokens, !e.opts.ForwardOnly)
}

// trainAll makes every weight trained.
func (e *Engine) trainAll() error {
	e.trained = e.baseFlat
	if err := e.takeOptimizerMemory(); err != nil {
		return err
	}
	e.weights = viewModel(e.cfg, e.base, e.baseFlat, nil, nil)
	e.grads = viewModel(e.cfg, e.base, e.gradient, nil, nil)
	if !e.opts.Reference {
		return nil
	}
	frozen, err := e.arena.Float32(e.base.size)
	if err != nil {
		return fmt.Errorf("cpu: reference weights: %w", err)
	}
	e.copyFlat(frozen, e.baseFlat)
	e.reference = viewModel(e.cfg, e.base, frozen, nil, nil)
	return nil
}

func (e *Engine) takeOptimizerMemory() error {
	if e.opts.ForwardOnly {
		return nil
	}
	for _, v := range []*[]float32{&e.gradient, &e.moment1, &e.moment2} {
		var err error
		if *v, err = e.arena.Float32(len(e.trained)); err != nil {
			return fmt.Errorf("cpu: gradient and moments: %w", err)
		}
	}
	return nil
}

// readTensors fills a flat vector from a model, several tensors at a time.
func readTensors(pool *kernel.Pool, l *layout, flat []float32, source modelfile.Source) error {
	var mu sync.Mutex
	var first error
	type piece struct {
		t        modelfile.Tensor
		dst      []float32
		from, to int
	}
	var pieces []piece
	for _, s := range l.slots {
		t, err := source.Tensor(s.name)
		if err != nil {
			return fmt.Errorf("cpu: %w", err)
		}
		const rows = 1024
		width := s.size() / s.shape[0]
		for from := 0; from < s.shape[0]; from += rows {
			to := min(from+rows, s.shape[0])
			pieces = append(pieces, piece{t, flat[s.from+from*width : s.from+to*width], from, to})
		}
	}
	pool.Run(len(pieces), func(i int) {
		p := pieces[i]
		if err := p.t.Rows(p.dst, p.from, p.to); err != nil {
			mu.Lock()
			first = errors.Join(first, fmt.Errorf("cpu: %w", err))
			mu.Unlock()
		}
	})
	return first
}
