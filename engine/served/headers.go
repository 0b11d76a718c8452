package served

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// filesOf returns a function that refuses a directory without the weights of a model, or without an
// adapter of it. It reads the headers of the files: names, types and shapes of the tensors, and that none is
// cut off. A server that fails to load a directory may end of it.
func filesOf(cfg *model.Config, adapter bool) func(dir string) error {
	return func(dir string) error {
		if adapter {
			a, err := model.OpenAdapter(dir, cfg)
			if err != nil {
				return err
			}
			return both(servable(a, dir), a.Close())
		}
		m, err := model.Open(dir)
		if err != nil {
			return err
		}
		defer m.Close()
		for _, want := range cfg.Tensors() {
			switch got, err := m.Tensor(want.Name); {
			case err != nil:
				return fmt.Errorf("%s: tensor %s is missing, which the model of the servers has", dir, want.Name)
			case !slices.Equal(got.Shape, want.Shape):
				return fmt.Errorf("%s: tensor %s has shape %v, and %v in the model of the servers", dir, want.Name, got.Shape, want.Shape)
			}
		}
		if difference := cfg.Differs(m.Config); difference != "" {
			return fmt.Errorf("%s: %s: it is another model than that of the servers", dir, difference)
		}
		return nil
	}
}

// namesHead reports whether a new adapter would adapt the output head.
func namesHead(l *engine.LoRASpec) bool {
	return slices.Contains(l.TargetModules, model.OutputHead) && !slices.Contains(l.ExcludeModules, model.OutputHead)
}

// servable refuses an adapter that servers do not take.
func servable(a *model.Adapter, dir string) error {
	switch {
	case slices.Contains(a.Names(), model.LoRATensor(model.OutputHead, "A")):
		return fmt.Errorf("%s is %s", dir, ofTheHead)
	case halfOfExperts(a.TargetParameters):
		return fmt.Errorf("%s is %s", dir, ofHalf)
	}
	return nil
}

// halfOfExperts reports whether target_parameters names one tensor of a layer's experts without the other.
func halfOfExperts(parameters []string) bool {
	layers := map[string]int{}
	for _, p := range parameters {
		layers[p[:strings.LastIndex(p, ".")+1]]++
	}
	for _, tensors := range layers {
		if tensors != 2 {
			return true
		}
	}
	return false
}
