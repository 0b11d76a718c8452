package served

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// none is the memory of servers that run already: they take none that a plan could give them.
func none() []engine.MemoryPart { return []engine.MemoryPart{} }

// PlanMemory implements engine.SamplerOpener: what a GPU of the servers that the run starts holds at least.
// Servers are equal. They may fill a share of the GPU, so the plan says the share of the KV cache in words.
func (*startable) PlanMemory(spec engine.SamplerSpec) ([]engine.MemoryPart, error) {
	s := &spec.Start
	if len(spec.Servers) > 0 || s.Engines == 0 || spec.Start.Place.GPUs == 0 {
		return none(), nil
	}
	cfg, err := model.ReadConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	parts := int64(max(1, s.TensorParallel) * max(1, s.PipelineParallel))
	why := fmt.Sprintf("%s, cut into %d; servers: %d, each fills its GPUs to gpu_memory_utilization %v with its KV cache",
		s.DType, parts, s.Engines, s.MemoryShare)
	if spec.Start.Place.Beside != "" {
		why += ", and gives them up while the trainer computes"
	}
	return []engine.MemoryPart{{
		Kind: "weights", Bytes: (cfg.Parameters()*bytesOf(s.DType) + parts - 1) / parts, Why: why, Device: "server GPU",
		Free: int64(float64(spec.Start.Place.GPUBytes) * s.MemoryShare),
	}}, nil
}

// bytesOf returns the bytes of a number as servers hold it. auto is what the files have, mostly 16 bits.
func bytesOf(dtype string) int64 {
	if dtype == "float32" || dtype == "float" {
		return 4
	}
	return 2
}
