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

// openModel opens the model with the head that opts ask for.
func openModel(opts Options) (*modelfile.Model, error) {
	m, err := openFile(opts)
	if err != nil {
		return nil, err
	}
	with := m
	if opts.Value {
		with, err = m.WithValueHead(opts.HeadSeed)
	} else {
		err = checkHead(m.Config, opts)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return with, nil
}

// checkHead refuses a model with another head than opts ask for.
func checkHead(cfg *modelfile.Config, opts Options) error {
	wanted := modelfile.CausalLM
	if opts.scores {
		wanted = modelfile.SequenceClassification
	}
	if cfg.Head != wanted {
		return fmt.Errorf("cpu: %s is a model %s; %s", opts.ModelPath, cfg.Head, headHints[cfg.Head])
	}
	return nil
}

// headHints say what a model that was opened as something else is for.
var headHints = map[modelfile.Head]string{
	modelfile.CausalLM:               "it has log-probabilities and no score: a reward model has a score.weight",
	modelfile.SequenceClassification: "it scores whole sequences: use it as a reward model or as the beginning of a critic",
	modelfile.TokenClassification:    "it has a value at each token: use it as a critic",
}

// openFile opens the model's file, or makes a random one of a directory that has only a config.
func openFile(opts Options) (*modelfile.Model, error) {
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

// load reads the weights and takes all memory. It closes the source as soon as that is no longer needed: its pages count as memory too.
func (e *Engine) load(source *modelfile.Model) error {
	err := e.takeWeights(source)
	if err = errors.Join(err, source.Close()); err != nil {
		return err
	}
	if err := e.takeMemory(); err != nil {
		return err
	}
	for _, a := range []*kernel.Arena{e.arena, e.work.arena, e.headSpace.arena} {
		a.Touch(e.pool)
	}
	return nil
}

// takeWeights takes the memory of the weights and reads them from source, or only counts it if the engine is a plan.
func (e *Engine) takeWeights(source *modelfile.Model) error {
	if err := e.place(); err != nil {
		return err
	}
	if err := e.takeFrozen(source); err != nil {
		return err
	}
	if e.opts.LoRA != nil {
		return e.addAdapters(source)
	}
	if err := e.trainAll(source); err != nil {
		return err
	}
	e.weights = viewModel(e.cfg, e.base, e.trained, nil, nil)
	if e.opts.Reference {
		e.reference = viewModel(e.cfg, e.base, e.baseFlat, nil, nil)
	}
	return nil
}

// frozen says whether there are base weights that nobody changes.
func (e *Engine) frozen() bool { return e.opts.LoRA != nil || e.opts.Reference || e.opts.ForwardOnly }

// takeFrozen takes the base weights that nobody changes, which all engines of the process share that opened the same file.
func (e *Engine) takeFrozen(source *modelfile.Model) error {
	if !e.frozen() {
		return nil
	}
	why := "frozen base weights, float32"
	if e.opts.LoRA == nil && !e.opts.ForwardOnly {
		why = "frozen weights of the reference model, float32"
	}
	e.note(frozenWeights, 4*int64(e.base.size), why+"; one copy for all that read the same file")
	if e.planning {
		return nil
	}
	key, err := weightsKey(e.opts)
	if err != nil {
		return err
	}
	if e.shared, err = shareWeights(key, func(arena *kernel.Arena) ([]float32, error) { return e.readBase(arena, source) }); err != nil {
		return err
	}
	e.baseFlat = e.shared.flat
	return nil
}

// readBase reads the base weights.
func (e *Engine) readBase(arena *kernel.Arena, source *modelfile.Model) ([]float32, error) {
	flat, err := arena.Float32(e.base.size)
	if err != nil {
		return nil, fmt.Errorf("cpu: base weights: %w", err)
	}
	if err := readTensors(e.pool, e.base, flat, source); err != nil {
		return nil, err
	}
	if e.opts.DType == "bf16" {
		kernel.RoundToBF16(e.pool, flat)
	}
	return flat, nil
}

// trainAll makes every weight trained.
func (e *Engine) trainAll(source *modelfile.Model) error {
	if e.opts.ForwardOnly {
		e.trained = e.baseFlat
		return nil
	}
	var err error
	if e.trained, err = e.take(trainedWeights, e.base.size, "float32"); err != nil || e.planning {
		return err
	}
	if e.baseFlat != nil {
		e.copyFlat(e.trained, e.baseFlat)
		return nil
	}
	e.baseFlat = e.trained
	return readTensors(e.pool, e.base, e.trained, source)
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
