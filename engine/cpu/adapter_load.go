package cpu

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/trinity-go/trinity/modelfile"
)

// openAdapter opens the PEFT directory to go on from; nil if there is none.
func (e *Engine) openAdapter() (*modelfile.Adapter, error) {
	path := e.opts.LoRA.Path
	if path == "" {
		return nil, nil
	}
	file, err := modelfile.OpenAdapter(path, e.cfg)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if file.Dropout != 0 {
		file.Close()
		return nil, fmt.Errorf("cpu: adapter %s was trained with lora_dropout %v, which this engine does not do: to train it further without, set it to 0 in adapter_config.json", path, file.Dropout)
	}
	return file, nil
}

// addAdapters makes low-rank adapters the trained weights, new ones or those of a PEFT directory, and with them the value head if
// there is one.
func (e *Engine) addAdapters(source modelfile.Source) error {
	file, err := e.openAdapter()
	if err != nil {
		return err
	}
	lora := e.opts.LoRA.describe()
	if file != nil {
		defer file.Close()
		lora = file.LoRA
	} else if err := lora.CheckExcluded(e.cfg); err != nil {
		return fmt.Errorf("cpu: lora: %w", err)
	}
	lora.Head = e.opts.Value
	if e.adapters, err = newAdapterLayout(e.cfg, lora); err != nil {
		return fmt.Errorf("cpu: lora: %w", err)
	}
	if e.trained, err = e.take("adapter", e.adapters.size, "float32"); err != nil || e.planning {
		return err
	}
	if file != nil {
		err = readTensors(e.pool, &e.adapters.layout, e.trained, adaptersOver{file, source})
	} else {
		e.initialiseAdapters(e.opts.LoRA.Seed)
	}
	if err != nil {
		return err
	}
	e.weights = viewModel(e.cfg, e.base, e.baseFlat, e.adapters, e.trained)
	e.reference = viewModel(e.cfg, e.base, e.baseFlat, nil, nil)
	return nil
}

// adaptersOver is an adapter, and the model where the adapter has no head of its own.
type adaptersOver struct {
	*modelfile.Adapter
	model modelfile.Source
}

func (a adaptersOver) Tensor(name string) (modelfile.Tensor, error) {
	if t, err := a.Adapter.Tensor(name); err == nil || !isScore(name) {
		return t, err
	}
	return a.model.Tensor(name)
}

func isScore(name string) bool { return name == scoreName || name == scoreBiasName }

// initialiseAdapters draws every A from U(−1/√in, 1/√in), as PEFT's Kaiming initialisation does, and leaves every B at 0; a head begins as the
// model's. Each number depends only on the seed, the tensor's name and its index.
func (e *Engine) initialiseAdapters(seed uint64) {
	for _, s := range e.adapters.slots {
		if isScore(s.name) {
			copy(e.adapters.in(e.trained, s.name), e.base.in(e.baseFlat, s.name))
		}
		if !strings.HasSuffix(s.name, modelfile.LoRATensor("", "A")) {
			continue
		}
		h := fnv.New64a()
		h.Write([]byte(s.name))
		key, bound := mix(mix(seed)^h.Sum64()), 1/math.Sqrt(float64(s.shape[1]))
		for i := range e.adapters.in(e.trained, s.name) {
			e.trained[s.from+i] = float32(float64(int64(mix(key+uint64(i)))>>11) * 0x1p-52 * bound)
		}
	}
}

// mix is one round of SplitMix64 (Steele, Lea & Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
