package cpu

import (
	"cmp"
	"fmt"

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
	if l.trained, err = l.memory.take("adapter", l.adapters.room, "float32"); err != nil || l.memory.planning {
		return err
	}
	var from model.Source = file
	if file == nil {
		if from, err = lora.New(l.cfg, l.opts.Seed); err != nil {
			return fmt.Errorf("cpu: lora: %w", err)
		}
	}
	if err := readTensors(l.pool, &l.adapters.layout, l.trained, adapterOrModel{from, source}); err != nil {
		return err
	}
	l.weights = viewModel(l.cfg, view{l.base, l.baseFlat, true}, l.adapters, l.trained)
	l.reference = viewModel(l.cfg, view{l.base, l.baseFlat, true}, nil, nil)
	return nil
}

// adapterOrModel reads tensors of an adapter. It reads the head from the model if the adapter has
// none.
type adapterOrModel struct {
	model.Source
	model model.Source
}

func (a adapterOrModel) Tensor(name string) (model.Tensor, error) {
	if t, err := a.Source.Tensor(name); err == nil || !isScore(name) {
		return t, err
	}
	return a.model.Tensor(name)
}

func isScore(name string) bool { return name == scoreName || name == scoreBiasName }
