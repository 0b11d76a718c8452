package cpu

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// weightsPrefix begins the names of a state's weights.
const weightsPrefix = "weights."

// WriteModel implements [engine.StateReader]. It holds a few rows of a tensor in memory.
func (trainerPlugin) WriteModel(spec engine.TrainerSpec, dir, out string) error {
	s, err := parseState(filepath.Join(dir, stateName))
	if err != nil {
		return err
	}
	file, err := safetensors.Open(filepath.Join(dir, tensorsName))
	if err != nil {
		return fmt.Errorf("cpu: state: %w", err)
	}
	defer file.Close()
	cfg, err := readConfig(spec.ModelPath)
	if err != nil {
		return err
	}
	weights := stateWeights{file}
	_, scores := file.Tensor(weightsPrefix + scoreName)
	opts := Options{Value: spec.Head == engine.ValueHead, Score: scores}
	if head, isNew := opts.head(); isNew {
		if cfg, err = cfg.WithHead(head); err != nil {
			return err
		}
	}
	if s.LoRA == nil {
		return model.WriteDir(out, cfg, weights, "f32")
	}
	lora := s.LoRA.lora()
	lora.BaseModel, lora.Head = spec.ModelPath, opts.Value
	if spec.LoRA != nil {
		lora.BaseModel = cmp.Or(spec.LoRA.BaseModelName, spec.ModelPath)
	}
	return model.WriteAdapter(out, cfg, &lora, weights)
}

// lora returns adapters with the scale of the state. Their alpha is that of the configuration, if one
// of its two rules gives the scale.
func (t *loraTag) lora() model.LoRA {
	l := model.LoRA{Rank: t.Rank, TargetModules: t.Modules, ExcludeModules: t.Exclude, TargetParameters: t.Experts}
	for _, l.RSLoRA = range []bool{false, true} {
		per := float64(t.Rank)
		if l.RSLoRA {
			per = math.Sqrt(per)
		}
		if l.Alpha = math.Round(float64(t.Scale) * per); l.Alpha > 0 && float32(l.Scale()) == t.Scale {
			return l
		}
	}
	l.RSLoRA, l.Alpha = false, float64(t.Scale)*float64(t.Rank)
	return l
}

// stateWeights are the weights of a state's file, as a [model.Source].
type stateWeights struct{ *safetensors.File }

// Names implements [model.Source].
func (w stateWeights) Names() (names []string) {
	for _, name := range w.File.Names() {
		if name, ok := strings.CutPrefix(name, weightsPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// Tensor implements [model.Source].
func (w stateWeights) Tensor(name string) (model.Tensor, error) {
	t, ok := w.File.Tensor(weightsPrefix + name)
	if !ok || len(t.Shape) == 0 {
		return model.Tensor{}, fmt.Errorf("cpu: %s: no weights are called %s", w.Path, name)
	}
	width := 1
	for _, n := range t.Shape[1:] {
		width *= n
	}
	return model.NewTensor(name, t.Shape, func(dst []float32, from, _ int) error { return t.Range(dst, from*width) }), nil
}
