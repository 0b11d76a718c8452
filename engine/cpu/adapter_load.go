package cpu

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/trinity-go/trinity/model"
)

// openAdapter opens the PEFT directory that training continues from; nil if there is none.
func (l *loader) openAdapter() (*model.Adapter, error) {
	path := l.opts.LoRA.Path
	if path == "" {
		return nil, nil
	}
	file, err := model.OpenAdapter(path, l.cfg)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if file.Dropout != 0 {
		file.Close()
		return nil, fmt.Errorf("cpu: adapter %s was trained with lora_dropout %v, which this engine does not support: set it to 0 in adapter_config.json to train the adapter without dropout", path, file.Dropout)
	}
	return file, nil
}

// addAdapters makes low-rank adapters the trained weights, and the value head if there is one. They
// are new, or read from a PEFT directory. source is nil in a plan.
func (l *loader) addAdapters(source model.Source) error {
	file, err := l.openAdapter()
	if err != nil {
		return err
	}
	lora := model.NewLoRA(l.opts.LoRA)
	if file != nil {
		defer file.Close()
		lora = file.LoRA
	} else if err := lora.CheckExcluded(l.cfg); err != nil {
		return fmt.Errorf("cpu: lora: %w", err)
	}
	lora.BaseModel, lora.Head = cmp.Or(l.opts.LoRA.BaseModelName, l.opts.ModelPath), l.opts.Value
	if l.adapters, err = newAdapterLayout(l.cfg, lora); err != nil {
		return fmt.Errorf("cpu: lora: %w", err)
	}
	if l.trained, err = l.memory.take("adapter", l.adapters.size, "float32"); err != nil || l.memory.planning {
		return err
	}
	if file != nil {
		err = readTensors(l.pool, &l.adapters.layout, l.trained, adapterOrModel{file, source})
	} else {
		l.initialiseAdapters(l.opts.Seed)
	}
	if err != nil {
		return err
	}
	l.weights = viewModel(l.cfg, l.base, l.baseFlat, l.adapters, l.trained)
	l.reference = viewModel(l.cfg, l.base, l.baseFlat, nil, nil)
	return nil
}

// adapterOrModel reads tensors of an adapter. It reads the head from the model if the adapter has
// none.
type adapterOrModel struct {
	*model.Adapter
	model model.Source
}

func (a adapterOrModel) Tensor(name string) (model.Tensor, error) {
	if t, err := a.Adapter.Tensor(name); err == nil || !isScore(name) {
		return t, err
	}
	return a.model.Tensor(name)
}

func isScore(name string) bool { return name == scoreName || name == scoreBiasName }

// initialiseAdapters draws every A from U(−1/√in, 1/√in), as PEFT's Kaiming initialisation does,
// leaves every B at 0, and copies the model's value head. Each number depends only on the seed, the
// tensor's name and its index.
func (l *loader) initialiseAdapters(seed uint64) {
	for _, s := range l.adapters.slots {
		if isScore(s.name) {
			copy(l.adapters.in(l.trained, s.name), l.base.in(l.baseFlat, s.name))
		}
		if !strings.HasSuffix(s.name, model.LoRATensor("", "A")) {
			continue
		}
		h := fnv.New64a()
		h.Write([]byte(s.name))
		key, bound := mix(mix(seed)^h.Sum64()), 1/math.Sqrt(float64(s.shape[1]))
		for i := range l.adapters.in(l.trained, s.name) {
			l.trained[s.from+i] = float32(float64(int64(mix(key+uint64(i)))>>11) * 0x1p-52 * bound)
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
