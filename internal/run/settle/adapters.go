package settle

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
)

// checkAdapters returns an error if an adapter does not fit the model.
func checkAdapters(m *model.Config, loras []config.Lora) error {
	for i := range loras {
		if _, err := adapterOf(m, &loras[i]); err != nil {
			return fmt.Errorf("model.lora_configs.%d: %w", i, err)
		}
	}
	return nil
}

// adapterOf reads an adapter from its PEFT directory. Without one it describes a new adapter.
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

// warnOfBase reports a base that PEFT cannot open although the adapters of the run will name it. A stage that
// continues an adapter does not repeat what the stage before has said.
func warnOfBase(configs []config.Lora, say func(string)) {
	if len(configs) == 0 || configs[0].Path != "" || !strings.EqualFold(filepath.Ext(configs[0].BaseModelName), ".gguf") {
		return
	}
	base := configs[0].BaseModelName
	say(fmt.Sprintf("adapters of this run name the base %s, which PEFT cannot open; for PEFT, write the base as a directory "+
		"(trinity convert %[1]s --output DIR) and set model.lora_configs.0.base_model_name=DIR", base))
}

// loraSpec returns the adapter to train, or nil.
func loraSpec(configs []config.Lora) *engine.LoRASpec {
	if len(configs) == 0 {
		return nil
	}
	return &configs[0].LoRASpec
}
