package run

import (
	"fmt"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/model"
)

// checkAdapters opens the adapters that start from files, and checks that they are of the model.
func checkAdapters(m *model.Config, loras []config.Lora) error {
	for i := range loras {
		if _, err := adapterOf(m, &loras[i]); err != nil {
			return fmt.Errorf("model.lora_configs.%d: %w", i, err)
		}
	}
	return nil
}

// adapterOf describes an adapter: that of its PEFT directory, else a new one.
func adapterOf(m *model.Config, l *config.Lora) (*model.LoRA, error) {
	if l.Path != "" {
		file, err := model.OpenAdapter(l.Path, m)
		if err != nil {
			return nil, err
		}
		return &file.LoRA, file.Close()
	}
	lora := model.NewLoRA(&l.LoRASpec)
	if err := lora.CheckExcluded(m); err != nil {
		return nil, err
	}
	_, err := lora.Tensors(m)
	return &lora, err
}
