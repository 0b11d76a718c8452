package service

import (
	"fmt"
	"maps"
	"reflect"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

// serverStarter is an engine.SamplerOpener that samples on servers, which it starts unless some run already.
type serverStarter interface {
	Programs(spec engine.SamplerSpec) []engine.Program
}

// servers are those that a sampler starts, or reaches. Their keys are those of explorer.rollout_model and of vLLM.
type servers struct {
	BaseURLs    []string `yaml:"base_urls"`
	Engines     int      `yaml:"engine_num" range:"[1,)"`
	Tensor      int      `yaml:"tensor_parallel_size" range:"[1,)"`
	MemoryShare float64  `yaml:"gpu_memory_utilization" range:"[0,1]"` // 0 is usualShare, or sharedShare
	DType       string   `yaml:"dtype" enum:"auto|bfloat16|float16|float32"`
	Eager       bool     `yaml:"enforce_eager"`
	MaxRank     int      `yaml:"max_lora_rank" range:"[1,512]"`
	MaxAdapters int      `yaml:"max_loras" range:"[1,)"`
}

// usualServers are what a service starts without arguments. Room for adapters costs memory of each server, and a service
// starts them before it knows the ranks of its clients.
var usualServers = servers{Engines: 1, Tensor: 1, DType: "bfloat16", MaxRank: usualRank, MaxAdapters: 8}

// Shares of a GPU that servers fill, and that they fill beside the trainer.
const usualShare, sharedShare = 0.9, 0.5

// inWords are the types of their arguments.
var inWords = map[reflect.Kind]string{
	reflect.Slice: "a list, such as [http://gpu:8000]", reflect.Int: "a whole number", reflect.Float64: "a number", reflect.String: "a text",
	reflect.Bool: "true or false",
}

// take takes its arguments out of those of a sampler, and returns the rest, which are the plug-in's.
func (s *servers) take(args map[string]any) (rest map[string]any, err error) {
	v, rest := reflect.ValueOf(s).Elem(), maps.Clone(args)
	for _, f := range tags.Fields(v.Type()) {
		key := tags.Key(f)
		given, ok := rest[key]
		if !ok {
			continue
		}
		delete(rest, key)
		text, err := yaml.Marshal(given)
		if err == nil {
			err = yaml.Unmarshal(text, v.FieldByIndex(f.Index).Addr().Interface())
		}
		if err != nil { // in several lines, which name none of the arguments
			return nil, fmt.Errorf("--sampler-arg %s=%v: want %s", key, given, inWords[f.Type.Kind()])
		}
	}
	if err := registry.Validate(s); err != nil {
		return nil, fmt.Errorf("--sampler-arg %w", err)
	}
	return rest, nil
}

// samplerOf returns the plug-in that samples, and its servers; nil if it has none.
func samplerOf(o *Options) (engine.SamplerOpener, *servers, error) {
	plugin, err := registry.Samplers.Build(o.Sampler)
	if err != nil {
		return nil, nil, err
	}
	args, s := o.SamplerArgs, (*servers)(nil)
	if _, on := plugin.(serverStarter); on {
		own := usualServers
		if args, err = own.take(args); err != nil {
			return nil, nil, err
		}
		if len(o.Models) > 1 {
			return nil, nil, fmt.Errorf("the servers of %s have one model, and --model names %d: run a service for each", o.Sampler, len(o.Models))
		}
		s = &own
	}
	plugin, err = registry.Samplers.Build(o.Sampler, args)
	return plugin, s, err
}

// on makes a sampler one on these servers. trains says that the trainer has a program, too, which takes the first GPU.
func (s *servers) on(sample *engine.SamplerSpec, m Model, p *places, trains bool) error {
	sample.LoRA, sample.Slots = &engine.LoRASpec{LoraRank: s.MaxRank, LoraAlpha: s.MaxRank}, s.MaxAdapters
	sample.Record.Tokens, sample.Patience, sample.Servers = true, startTimeout, s.BaseURLs
	if len(s.BaseURLs) > 0 {
		return nil
	}
	if !model.HasWeights(m.Path) {
		return fmt.Errorf("%s is no directory with weights (safetensors), which servers load: trinity convert makes one of a GGUF file", m.Path)
	}
	place, shared, err := p.ofServers(s.Engines, s.Tensor, trains)
	if err != nil {
		return err
	}
	share := s.MemoryShare
	switch {
	case share == 0 && shared:
		share = sharedShare
	case share == 0:
		share = usualShare
	}
	sample.Start = engine.ServerSpec{
		Engines: s.Engines, TensorParallel: s.Tensor, DType: s.DType, MemoryShare: share, Eager: s.Eager, PrefixCaching: true,
		ChunkedPrefill: true, Seed: 42, Place: place,
	}
	return nil
}
