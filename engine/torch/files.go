package torch

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// files are what the worker loads a model from.
type files struct {
	model string              // Hugging Face directory with weights
	lora  string              // PEFT directory; "" without an adapter
	head  []safetensors.Entry // of a critic or a reward model
	cfg   *model.Config
	tag   *loraTag
}

// heads are the forms in which transformers has a critic and a reward model.
var heads = map[string]model.Head{
	engine.ValueHead: model.TokenClassification, engine.ScoreHead: model.SequenceClassification,
}

// prepare returns the model's files. It writes those that do not exist in the form that transformers
// reads: random weights, a GGUF file, a new adapter. base is the directory for which those of the frozen model were
// written; "" if they were not.
func prepare(dir, base string, spec engine.TrainerSpec) (f files, err error) {
	m, written, err := openFile(spec)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if m.Config.Head != model.CausalLM && spec.Head == engine.LogprobHead {
		return f, fmt.Errorf("torch: %s has a classification head and no log-probabilities", spec.ModelPath)
	}
	if err := checkLayout(m.Config, spec); err != nil {
		return f, err
	}
	f = files{model: spec.ModelPath, cfg: m.Config}
	if written {
		f.model = filepath.Join(cmp.Or(base, dir), "model")
		if base == "" {
			err = model.WriteDir(f.model, m.Config, m, f32)
		}
		if err != nil {
			return f, err
		}
	}
	if spec.LoRA != nil {
		f.lora = filepath.Join(dir, "adapter")
		f.tag, err = writeAdapter(f.lora, m.Config, spec)
		return f, err
	}
	head, headed := heads[spec.Head]
	if !headed {
		return f, nil
	}
	m, err = m.WithHead(head, spec.Seed)
	if err != nil {
		return f, err
	}
	f.cfg = m.Config
	f.head, err = headOf(m)
	return f, err
}

// openFile opens the model. written reports whether it is in no directory that transformers loads.
func openFile(spec engine.TrainerSpec) (m *model.Model, written bool, err error) {
	if spec.Init.Style != "" && !model.HasWeights(spec.ModelPath) {
		cfg, err := model.ReadConfig(spec.ModelPath)
		if err != nil {
			return nil, false, err
		}
		m, err = model.RandomInit(cfg, spec.Init.Seed, spec.Init.Style)
		return m, true, err
	}
	m, err = model.Open(spec.ModelPath)
	return m, err == nil && m.Dir() == "", err
}

// writeAdapter writes the adapter from which training starts, and returns what it is.
func writeAdapter(dir string, cfg *model.Config, spec engine.TrainerSpec) (*loraTag, error) {
	lora := model.NewLoRA(spec.LoRA)
	base := cmp.Or(spec.LoRA.BaseModelName, spec.ModelPath)
	if spec.LoRA.Path == "" {
		lora.BaseModel = base
		if err := lora.CheckExcluded(cfg); err != nil {
			return nil, fmt.Errorf("torch: lora: %w", err)
		}
		source, err := lora.New(cfg, spec.Seed)
		if err != nil {
			return nil, fmt.Errorf("torch: lora: %w", err)
		}
		return tagOf(&lora), model.WriteAdapter(dir, cfg, &lora, source)
	}
	file, err := model.OpenAdapter(spec.LoRA.Path, cfg)
	if err != nil {
		return nil, fmt.Errorf("torch: %w", err)
	}
	defer file.Close()
	if file.Dropout != 0 {
		return nil, fmt.Errorf("torch: adapter %s was trained with lora_dropout %v, which this engine does not support: "+
			"set it to 0 in adapter_config.json to train the adapter without dropout", spec.LoRA.Path, file.Dropout)
	}
	lora = file.LoRA
	lora.BaseModel = base
	return tagOf(&lora), model.WriteAdapter(dir, cfg, &lora, file)
}

// loraTag is what a state has of an adapter: nothing of where its weights came from.
type loraTag struct {
	LoraRank       int
	LoraAlpha      float64
	UseRslora      bool
	TargetModules  []string
	ExcludeModules []string
	Parameters     []string `json:"TargetParameters,omitempty"`
}

func tagOf(l *model.LoRA) *loraTag {
	return &loraTag{l.Rank, l.Alpha, l.RSLoRA, l.TargetModules, l.ExcludeModules, l.TargetParameters}
}

func (t *loraTag) lora() *model.LoRA {
	return &model.LoRA{
		Rank: t.LoraRank, Alpha: t.LoraAlpha, RSLoRA: t.UseRslora, TargetModules: t.TargetModules, ExcludeModules: t.ExcludeModules,
		TargetParameters: t.Parameters,
	}
}

// equal reports whether two runs adapt the same modules of a model alike, or both none. The file of an adapter may name
// modules that its run called [model.AllLinear].
func (t *loraTag) equal(cfg *model.Config, other *loraTag) bool {
	if t == nil || other == nil {
		return t == other
	}
	x, y := t.lora(), other.lora()
	own, err := x.Tensors(cfg)
	its, err2 := y.Tensors(cfg)
	return x.Rank == y.Rank && x.Scale() == y.Scale() && err == nil && err2 == nil && reflect.DeepEqual(own, its)
}

// headOf returns the tensors of a head that gives one number.
func headOf(m *model.Model) (head []safetensors.Entry, err error) {
	for _, name := range []string{"score.weight", "score.bias"} {
		t, err := m.Tensor(name)
		if err != nil && name == "score.bias" {
			continue // a head without bias
		}
		if err != nil {
			return nil, err
		}
		v := make([]float32, t.Len())
		if err := t.Float32(v); err != nil {
			return nil, err
		}
		head = append(head, safetensors.Float32s(name, t.Shape, v))
	}
	return head, nil
}
