package place

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
)

// Forecast says what a stage will take of this machine: memory and time.
type Forecast struct {
	Config    *config.Settled
	Engines   *Engines
	Model     *model.Config
	Spec      Specs               // recomputes as few layers as possible
	Critic    string              // path; "" without one
	Beside    []config.MemoryPlan // of the reward models and teachers
	Available int64               // bytes; 0 means unknown
	Memory    []config.MemoryPlan // none if an engine cannot tell what it takes
}

// Plan plans the memory.
func (m *Forecast) Plan() (err error) {
	if err := m.recompute(); err != nil {
		return err
	}
	m.Memory, err = m.partsOf(m.Spec)
	return err
}

// checkTensorParallel refuses servers of the run that would not start because of the way in which they divide
// the heads of a model: a part has whole heads, and several parts may have the same key-value head.
func (m *Forecast) checkTensorParallel() error {
	s := m.Config
	parts := s.Explorer.RolloutModel.TensorParallelSize
	if !s.Samples || parts <= 1 || len(serversOf(s, m.Engines)) == 0 {
		return nil
	}
	of, heads := "attention heads", m.Model.NumHeads
	if m.Model.NumHeads%parts == 0 && m.Model.NumKVHeads%parts != 0 && parts%m.Model.NumKVHeads != 0 {
		of, heads = "key-value heads", m.Model.NumKVHeads
	} else if m.Model.NumHeads%parts == 0 {
		return nil
	}
	fits := parts
	for fits > 1 && (m.Model.NumHeads%fits != 0 || m.Model.NumKVHeads%fits != 0 && fits%m.Model.NumKVHeads != 0) {
		fits--
	}
	return s.At(tensorParallelKey, fmt.Sprintf("%d GPUs of a server do not divide the %d %s of the model", parts, heads, of),
		fmt.Sprintf("set it to %d", fits))
}

// recompute sets the number of layers whose activations the backward pass computes again: the least
// with which the plan fits, or else all layers but one.
func (m *Forecast) recompute() error {
	if !m.Spec.Train.Train || !m.Config.Batch.Recompute {
		return nil
	}
	var failed error
	m.Spec.Train.Recompute = sort.Search(m.Model.NumLayers-1, func(n int) bool {
		spec := m.Spec
		spec.Train.Recompute = n
		parts, err := m.partsOf(spec)
		failed = cmp.Or(failed, err) // each n has the same
		return m.lackingOn(computes(parts), parts) == nil
	})
	return failed
}

// computes returns the device that has the activations: no other needs less if they are computed again.
func computes(parts []config.MemoryPlan) string {
	for _, p := range parts {
		if p.Kind == "activations" {
			return p.Device
		}
	}
	return ""
}

// need is what parts of a plan need of one device.
type need struct {
	device      string // "" is this machine
	bytes, free int64  // free is 0 if it is not known
}

// sums adds up the parts by device.
func (m *Forecast) sums(parts []config.MemoryPlan) (all []need) {
	for _, p := range parts {
		i := slices.IndexFunc(all, func(n need) bool { return n.device == p.Device })
		if i < 0 {
			i, all = len(all), append(all, need{device: p.Device, free: p.Free})
			if p.Device == "" {
				all[i].free = m.Available
			}
		}
		all[i].bytes += p.Bytes
	}
	return all
}

// lackingOn returns a device if it has too little memory; nil if its parts fit.
func (m *Forecast) lackingOn(device string, parts []config.MemoryPlan) *need {
	return m.lacking(slices.DeleteFunc(slices.Clone(parts), func(p config.MemoryPlan) bool { return p.Device != device }))
}

// lacking returns the first device with too little memory; nil if the parts fit.
func (m *Forecast) lacking(parts []config.MemoryPlan) *need {
	for _, n := range m.sums(parts) {
		if n.free > 0 && n.bytes > n.free {
			return &n
		}
	}
	return nil
}

// partsOf returns what needs memory under a spec. It returns nil if an engine cannot tell.
func (m *Forecast) partsOf(spec Specs) ([]config.MemoryPlan, error) {
	taken, err := m.Engines.plan(spec)
	if err != nil || taken == nil {
		return nil, err
	}
	if m.Critic != "" && spec.Train.Train {
		critic := CriticSpec(spec.Train, m.Critic, spec.Critic)
		beside, err := m.Engines.PlanTrainer(critic)
		if err != nil {
			return nil, fmt.Errorf("critic: %w", err)
		}
		for _, p := range beside {
			p.Kind = "critic's " + p.Kind
			taken = append(taken, p)
		}
	}
	taken = append(lasting(taken), m.process())
	if spec.Train.Reference && m.Config.Batch.Rereads {
		taken = append(taken, engine.MemoryPart{
			Kind: "cache", Bytes: ReferenceCache, Why: "reference log-probabilities for the next epoch, at most",
		})
	}
	var parts []config.MemoryPlan
	for _, p := range taken {
		if p.Bytes > 0 {
			parts = append(parts, config.MemoryPlan{Kind: p.Kind, Bytes: p.Bytes, Why: p.Why, Device: p.Device, Free: p.Free})
		}
	}
	return append(parts, m.Beside...), nil
}

// process returns the memory of the program beside the engine: its code and the runtime, the
// tokenizer's tables, the trace's buffers, and garbage.
func (m *Forecast) process() engine.MemoryPart {
	const program, perToken = 70 << 20, 900 // measured by TestPlanOfATinyModelIsNearThePeak
	return engine.MemoryPart{
		Kind: "process", Bytes: program + perToken*int64(m.Model.VocabSize) + traceMemory(m.Config),
		Why: fmt.Sprintf("program, tokenizer of %d tokens, experiences; estimate", m.Model.VocabSize),
	}
}

// DoesNotFit returns "" if the plan fits. Otherwise it returns a line with the memory that the run
// needs, the memory that is available, and settings that would fit, or how servers cannot divide the model.
func (m *Forecast) DoesNotFit() (string, error) {
	if err := m.checkTensorParallel(); err != nil {
		return err.Error(), nil
	}
	n := m.lacking(m.Memory)
	if n == nil {
		return "", nil
	}
	of, advice, err := "memory", "", error(nil)
	if n.device != "" {
		of += " on " + n.device
	}
	if n.device == computes(m.Memory) || n.device == "" {
		advice, err = m.advice()
	} else {
		advice = "raise " + tensorParallelKey + " or explorer.rollout_model.gpu_memory_utilization, or use a smaller model or larger GPUs"
	}
	return fmt.Sprintf("the run needs about %s of %s and %s are available; %s", config.Size(n.bytes), of, config.Size(n.free), advice), err
}

// lowering is a setting that users may lower until the plan fits.
type lowering struct {
	key        string
	now, least int
	set        func(spec *Specs, n int)
}

// lowerings lists the settings to lower. The first costs the user the least.
func (m *Forecast) lowerings() (all []lowering) {
	length, perRow := *m.Config.Model.MaxModelLen, m.Config.Batch.PerRow
	if m.Spec.Train.Train {
		all = append(all, lowering{microTokensKey, m.Spec.Train.MicroTokens, perRow * length, func(s *Specs, n int) {
			s.Train.MicroTokens = n
		}})
	}
	if m.Spec.Samples {
		perRunner := max(1, m.Config.Method.GroupSize) * m.Config.Explorer.RolloutModel.EngineNum
		all = append(all, lowering{"explorer.runner_per_model", m.Config.Explorer.RunnerPerModel, 1, func(s *Specs, n int) {
			s.Sample.MaxSequences = min(s.Sample.MaxSequences, n*perRunner)
		}})
	}
	return append(all, lowering{ModelLenKey, length, 2, func(s *Specs, n int) {
		s.Sample.MaxModelLen, s.Train.MaxModelLen, s.Train.MicroTokens = n, n, min(s.Train.MicroTokens, perRow*n)
	}})
}

// advice returns the largest settings that fit. It lowers one setting after another. It lowers the
// next one only if the least value of the one before is not low enough.
func (m *Forecast) advice() (string, error) {
	spec, lowered := m.Spec, map[string]int{}
	for _, l := range m.lowerings() {
		if l.now <= l.least {
			continue
		}
		n, fits, err := m.lower(&spec, l)
		if err != nil {
			return "", err
		}
		lowered[l.key] = n
		if now := spec.Train.MicroTokens; spec.Train.Train && now < m.Spec.Train.MicroTokens {
			lowered[microTokensKey] = now
		}
		if fits {
			return m.settings(lowered) + " would fit", nil
		}
	}
	parts, err := m.partsOf(spec)
	least := m.lacking(parts)
	if least == nil {
		return "", err
	}
	more := "a machine with more memory"
	if least.device != "" {
		more = "more GPUs (cluster.trainer_ranks, cluster.gpu_per_node, cluster.node_num)"
	}
	return fmt.Sprintf("even one short sequence at a time takes %s: use a smaller model, model.lora_configs or %s",
		config.Size(least.bytes), more), err
}

// lower sets in spec the greatest value of a setting that fits, or else the least value.
func (m *Forecast) lower(spec *Specs, l lowering) (n int, fits bool, err error) {
	tooMany := l.least + sort.Search(l.now-l.least, func(i int) bool {
		trial := *spec
		l.set(&trial, l.least+i)
		parts, failed := m.partsOf(trial)
		err = errors.Join(err, failed)
		return m.lacking(parts) != nil
	})
	n = max(l.least, tooMany-1)
	l.set(spec, n)
	return n, tooMany > l.least, err
}

const (
	microTokensKey = "trainer.max_token_len_per_gpu"
	ModelLenKey    = "model.max_model_len"
)

// settings writes settings as on the command line. If the file sets the two parts of max_model_len,
// users must lower these too.
func (m *Forecast) settings(values map[string]int) string {
	var words []string
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(values))) {
		words = append(words, fmt.Sprintf("%s=%d", key, values[key]))
	}
	if c := &m.Config.Model; values[ModelLenKey] > 0 && (c.MaxPromptTokens != nil || c.MaxResponseTokens != nil) {
		words = append(words, "(max_prompt_tokens and max_response_tokens no more than that together)")
	}
	return strings.Join(words, " ")
}

// ReferenceCache is the size in bytes of the cache for a dataset's reference log-probabilities. It
// has room for 8 million tokens.
const ReferenceCache = 32 << 20

// traceMemory returns the bytes of a stage's trace, measured as those of the process; 0 if it keeps none.
func traceMemory(cfg *config.Settled) int64 {
	if cfg.Monitor.Trace.IsKept() {
		return 6 << 20
	}
	return 0
}
