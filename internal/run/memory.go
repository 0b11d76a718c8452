package run

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

// memory plans the memory of the engines and the process around them.
type memory struct {
	cfg       *Settled
	model     *model.Config
	spec      specs               // recomputes as few layers as possible
	beside    []config.MemoryPlan // of the reward models and teachers
	parts     []config.MemoryPlan
	available int64 // bytes; 0 means unknown
}

// memoryOf plans the memory of the engines, the critic and the frozen models, on a machine with so
// many bytes available. The plan has no parts if an engine cannot tell what it takes.
func (s *Settled) memoryOf(spec specs, available int64) (*memory, error) {
	m := &memory{cfg: s, spec: spec, available: available}
	path := cmp.Or(spec.train.ModelPath, spec.sample.ModelPath)
	var err error
	if m.model, err = model.ReadConfig(path); err != nil {
		return nil, err
	}
	if n := *s.Model.MaxModelLen; n > m.model.MaxPositions {
		return nil, s.At(modelLenKey, fmt.Sprintf("is %d, but model %s has positions for %d tokens", n, path, m.model.MaxPositions),
			"lower it, or max_prompt_tokens and max_response_tokens")
	}
	if err := checkAdapters(m.model, s.Model.LoraConfigs); err != nil {
		return nil, err
	}
	if s.criticPath != "" {
		if err := s.checkCritic(m.model); err != nil {
			return nil, err
		}
	}
	if spec.samples {
		if m.beside, err = s.rewardMemory(); err != nil {
			return nil, err
		}
		plans, err := (asking{s}).memory()
		if err != nil {
			return nil, err
		}
		m.beside = append(m.beside, plans...)
	}
	if spec.train.Train {
		plans, err := s.teacherMemory()
		if err != nil {
			return nil, err
		}
		m.beside = append(m.beside, plans...)
	}
	if err := m.recompute(); err != nil {
		return nil, err
	}
	m.parts, err = m.partsOf(m.spec)
	return m, err
}

// checkTensorParallel refuses servers of the run that would not start because of the way in which they divide
// the heads of a model: a part has whole heads, and several parts may have the same key-value head.
func checkTensorParallel(s *Settled, m *model.Config) error {
	parts := s.Explorer.RolloutModel.TensorParallelSize
	if !s.Samples || parts <= 1 || len(serversOf(s.Settled, &s.engines)) == 0 {
		return nil
	}
	of, heads := "attention heads", m.NumHeads
	if m.NumHeads%parts == 0 && m.NumKVHeads%parts != 0 && parts%m.NumKVHeads != 0 {
		of, heads = "key-value heads", m.NumKVHeads
	} else if m.NumHeads%parts == 0 {
		return nil
	}
	fits := parts
	for fits > 1 && (m.NumHeads%fits != 0 || m.NumKVHeads%fits != 0 && fits%m.NumKVHeads != 0) {
		fits--
	}
	return s.At(tensorParallelKey, fmt.Sprintf("%d GPUs of a server do not divide the %d %s of the model", parts, heads, of),
		fmt.Sprintf("set it to %d", fits))
}

// recompute sets the number of layers whose activations the backward pass computes again: the least
// with which the plan fits, or else all layers but one.
func (m *memory) recompute() error {
	if !m.spec.train.Train || !m.cfg.Batch.Recompute {
		return nil
	}
	var failed error
	m.spec.train.Recompute = sort.Search(m.model.NumLayers-1, func(n int) bool {
		spec := m.spec
		spec.train.Recompute = n
		parts, err := m.partsOf(spec)
		failed = errors.Join(failed, err)
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
func (m *memory) sums(parts []config.MemoryPlan) (all []need) {
	for _, p := range parts {
		i := slices.IndexFunc(all, func(n need) bool { return n.device == p.Device })
		if i < 0 {
			i, all = len(all), append(all, need{device: p.Device, free: p.Free})
			if p.Device == "" {
				all[i].free = m.available
			}
		}
		all[i].bytes += p.Bytes
	}
	return all
}

// lackingOn returns a device if it has too little memory; nil if its parts fit.
func (m *memory) lackingOn(device string, parts []config.MemoryPlan) *need {
	return m.lacking(slices.DeleteFunc(slices.Clone(parts), func(p config.MemoryPlan) bool { return p.Device != device }))
}

// lacking returns the first device with too little memory; nil if the parts fit.
func (m *memory) lacking(parts []config.MemoryPlan) *need {
	for _, n := range m.sums(parts) {
		if n.free > 0 && n.bytes > n.free {
			return &n
		}
	}
	return nil
}

// partsOf returns what needs memory under a spec. It returns nil if an engine cannot tell.
func (m *memory) partsOf(spec specs) ([]config.MemoryPlan, error) {
	taken, err := m.cfg.engines.plan(spec)
	if err != nil || taken == nil {
		return nil, err
	}
	if m.cfg.criticPath != "" && spec.train.Train {
		critic := criticSpec(spec.train, m.cfg.criticPath, m.cfg.Critic.Optim.Spec())
		beside, err := m.cfg.engines.planTrainer(critic)
		if err != nil {
			return nil, fmt.Errorf("critic: %w", err)
		}
		for _, p := range beside {
			p.Kind = "critic's " + p.Kind
			taken = append(taken, p)
		}
	}
	taken = append(lasting(taken), m.process())
	if spec.train.Reference && m.cfg.Batch.Rereads {
		taken = append(taken, engine.MemoryPart{
			Kind: "cache", Bytes: referenceCache, Why: "reference log-probabilities for the next epoch, at most",
		})
	}
	var parts []config.MemoryPlan
	for _, p := range taken {
		if p.Bytes > 0 {
			parts = append(parts, config.MemoryPlan{Kind: p.Kind, Bytes: p.Bytes, Why: p.Why, Device: p.Device, Free: p.Free})
		}
	}
	return append(parts, m.beside...), nil
}

// process returns the memory of the program beside the engine: its code and the runtime, the
// tokenizer's tables, the trace's buffers, and garbage.
func (m *memory) process() engine.MemoryPart {
	const program, perToken = 70 << 20, 900 // measured by TestPlanOfATinyModelIsNearThePeak
	bytes := program + perToken*int64(m.model.VocabSize)
	if keepsTrace(m.cfg) {
		bytes += traceBuffers
	}
	return engine.MemoryPart{
		Kind: "process", Bytes: bytes,
		Why: fmt.Sprintf("program, tokenizer of %d tokens, experiences; estimate", m.model.VocabSize),
	}
}

// doesNotFit returns "" if the plan fits. Otherwise it returns a line with the memory that the run
// needs, the memory that is available, and settings that would fit, or how servers cannot divide the model.
func (m *memory) doesNotFit() (string, error) {
	if err := checkTensorParallel(m.cfg, m.model); err != nil {
		return err.Error(), nil
	}
	n := m.lacking(m.parts)
	if n == nil {
		return "", nil
	}
	of, advice, err := "memory", "", error(nil)
	if n.device != "" {
		of += " on " + n.device
	}
	if n.device == computes(m.parts) || n.device == "" {
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
	set        func(spec *specs, n int)
}

// lowerings lists the settings to lower. The first costs the user the least.
func (m *memory) lowerings() (all []lowering) {
	length, perRow := *m.cfg.Model.MaxModelLen, m.cfg.Batch.PerRow
	if m.spec.train.Train {
		all = append(all, lowering{microTokensKey, m.spec.train.MicroTokens, perRow * length, func(s *specs, n int) {
			s.train.MicroTokens = n
		}})
	}
	if m.spec.samples {
		perRunner := max(1, m.cfg.Method.GroupSize) * m.cfg.Explorer.RolloutModel.EngineNum
		all = append(all, lowering{"explorer.runner_per_model", m.cfg.Explorer.RunnerPerModel, 1, func(s *specs, n int) {
			s.sample.MaxSequences = min(s.sample.MaxSequences, n*perRunner)
		}})
	}
	return append(all, lowering{modelLenKey, length, 2, func(s *specs, n int) {
		s.sample.MaxModelLen, s.train.MaxModelLen, s.train.MicroTokens = n, n, min(s.train.MicroTokens, perRow*n)
	}})
}

// advice returns the largest settings that fit. It lowers one setting after another. It lowers the
// next one only if the least value of the one before is not low enough.
func (m *memory) advice() (string, error) {
	spec, lowered := m.spec, map[string]int{}
	for _, l := range m.lowerings() {
		if l.now <= l.least {
			continue
		}
		n, fits, err := m.lower(&spec, l)
		if err != nil {
			return "", err
		}
		lowered[l.key] = n
		if now := spec.train.MicroTokens; spec.train.Train && now < m.spec.train.MicroTokens {
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
func (m *memory) lower(spec *specs, l lowering) (n int, fits bool, err error) {
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
	modelLenKey    = "model.max_model_len"
)

// settings writes settings as on the command line. If the file sets the two parts of max_model_len,
// users must lower these too.
func (m *memory) settings(values map[string]int) string {
	var words []string
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(values))) {
		words = append(words, fmt.Sprintf("%s=%d", key, values[key]))
	}
	if c := &m.cfg.Model; values[modelLenKey] > 0 && (c.MaxPromptTokens != nil || c.MaxResponseTokens != nil) {
		words = append(words, "(max_prompt_tokens and max_response_tokens no more than that together)")
	}
	return strings.Join(words, " ")
}

// memory plans the memory of a stage whose models are on this machine.
func (s *Settled) memory() (*memory, error) {
	return s.memoryOf(s.specs(s.Trains, s.Samples), int64(Machine().Available))
}

// doesNotFit returns a line about a stage that needs more memory than is available, or "".
func (s *Settled) doesNotFit() (string, error) {
	m, err := s.memory()
	if err != nil {
		return "", err
	}
	return m.doesNotFit()
}

// referenceCache is the size in bytes of the cache for a dataset's reference log-probabilities. It
// has room for 8 million tokens.
const referenceCache = 32 << 20
