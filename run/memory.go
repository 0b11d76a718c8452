package run

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/model"
)

// memory is what an engine and the process around it take, and what there is.
type memory struct {
	cfg       *Settled
	model     *model.Config
	spec      specs               // with as few layers computed again as let it fit
	beside    []config.MemoryPlan // of the frozen models beside the engine: reward models and teachers
	parts     []config.MemoryPlan
	available int64 // bytes; 0 if not known
}

// memoryOf plans the memory of the engines, the critic and the frozen models beside them, of which
// there are so many bytes available. The plan has no parts if an engine cannot tell what it takes.
func (cfg *Settled) memoryOf(spec specs, available int64) (*memory, error) {
	m := &memory{cfg: cfg, spec: spec, available: available}
	path := cmp.Or(spec.train.ModelPath, spec.sample.ModelPath)
	var err error
	if m.model, err = model.ReadConfig(path); err != nil {
		return nil, err
	}
	if n := *cfg.Model.MaxModelLen; n > m.model.MaxPositions {
		return nil, cfg.At(modelLenKey, fmt.Sprintf("is %d, but model %s has positions for %d tokens", n, path, m.model.MaxPositions), "lower it, or max_prompt_tokens and max_response_tokens")
	}
	if err := checkAdapters(m.model, cfg.Model.LoraConfigs); err != nil {
		return nil, err
	}
	if cfg.criticPath != "" {
		if err := cfg.checkCritic(m.model); err != nil {
			return nil, err
		}
	}
	if spec.samples {
		if m.beside, err = cfg.rewardMemory(); err != nil {
			return nil, err
		}
	}
	if spec.train.Train {
		plans, err := cfg.teacherMemory()
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

// recompute chooses the fewest layers whose activations are computed again that let the plan fit; all, if none does.
func (m *memory) recompute() error {
	if !m.spec.train.Train || !m.cfg.Batch.Recompute {
		return nil
	}
	var failed error
	m.spec.train.Recompute = sort.Search(m.model.NumLayers-1, func(n int) bool {
		spec := m.spec
		spec.train.Recompute = n
		bytes, err := m.need(spec)
		failed = errors.Join(failed, err)
		return m.fits(bytes)
	})
	return failed
}

func (m *memory) fits(bytes int64) bool { return m.available == 0 || bytes <= m.available }

// need is the memory of a spec in bytes.
func (m *memory) need(spec specs) (int64, error) {
	parts, err := m.partsOf(spec)
	return total(parts), err
}

func total(parts []config.MemoryPlan) (bytes int64) {
	for _, p := range parts {
		bytes += p.Bytes
	}
	return bytes
}

func (m *memory) partsOf(spec specs) ([]config.MemoryPlan, error) {
	taken, err := m.cfg.engines.plan(spec)
	if err != nil || taken == nil {
		return nil, err
	}
	if m.cfg.criticPath != "" && spec.train.Train {
		beside, err := m.cfg.engines.trainer.PlanMemory(criticSpec(spec.train, m.cfg.criticPath, m.cfg.Critic.Optim.Spec()))
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
		taken = append(taken, trinity.MemoryPart{Kind: "cache", Bytes: referenceCache, Why: "reference log-probabilities for the next epoch, at most"})
	}
	var parts []config.MemoryPlan
	for _, p := range taken {
		if p.Bytes > 0 {
			parts = append(parts, config.MemoryPlan{Kind: p.Kind, Bytes: p.Bytes, Why: p.Why})
		}
	}
	return append(parts, m.beside...), nil
}

// process is what the program takes beside the engine: its code and the runtime, the tokenizer's tables, and the garbage of all of it.
func (m *memory) process() trinity.MemoryPart {
	const program, perToken = 44 << 20, 900
	return trinity.MemoryPart{
		Kind: "process", Bytes: program + perToken*int64(m.model.VocabSize), Why: fmt.Sprintf("program, tokenizer of %d tokens, experiences; estimate", m.model.VocabSize),
	}
}

// doesNotFit says in one line what is needed, what there is and what would fit; "" if all is well.
func (m *memory) doesNotFit() (string, error) {
	bytes := total(m.parts)
	if m.fits(bytes) {
		return "", nil
	}
	advice, err := m.advice()
	return fmt.Sprintf("the run needs about %s of memory and %s are available; %s", config.Size(bytes), config.Size(m.available), advice), err
}

// lowering is a setting that may be lowered until a plan fits.
type lowering struct {
	key        string
	now, least int
	set        func(spec *specs, n int)
}

// lowerings are those of the plan, in the order in which they cost the user the least.
func (m *memory) lowerings() (all []lowering) {
	length, perRow := *m.cfg.Model.MaxModelLen, m.cfg.Batch.PerRow
	if m.spec.train.Train {
		all = append(all, lowering{microTokensKey, m.spec.train.MicroTokens, perRow * length, func(s *specs, n int) { s.train.MicroTokens = n }})
	}
	if m.spec.samples {
		perRunner := max(1, m.cfg.Method.GroupSize) * m.cfg.Explorer.RolloutModel.EngineNum
		all = append(all, lowering{"explorer.runner_per_model", m.cfg.Explorer.RunnerPerModel, 1, func(s *specs, n int) { s.sample.MaxSequences = min(s.sample.MaxSequences, n*perRunner) }})
	}
	return append(all, lowering{modelLenKey, length, 2, func(s *specs, n int) {
		s.sample.MaxModelLen, s.train.MaxModelLen, s.train.MicroTokens = n, n, min(s.train.MicroTokens, perRow*n)
	}})
}

// advice is the largest settings that fit. Settings are lowered one after another, each as far as it must be, and to its least before the next.
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
	least, err := m.need(spec)
	return fmt.Sprintf("even one short sequence at a time takes %s: use a smaller model, model.lora_configs or a machine with more memory", config.Size(least)), err
}

// lower sets in spec the greatest value of a setting that fits, or else its least.
func (m *memory) lower(spec *specs, l lowering) (n int, fits bool, err error) {
	tooMany := l.least + sort.Search(l.now-l.least, func(i int) bool {
		trial := *spec
		l.set(&trial, l.least+i)
		bytes, failed := m.need(trial)
		err = errors.Join(err, failed)
		return !m.fits(bytes)
	})
	n = max(l.least, tooMany-1)
	l.set(spec, n)
	return n, tooMany > l.least, err
}

const (
	microTokensKey = "trainer.max_token_len_per_gpu"
	modelLenKey    = "model.max_model_len"
)

// settings writes settings as on the command line. Where the file sets the parts of max_model_len, it is they that have to be lowered.
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
func (cfg *Settled) memory() (*memory, error) {
	return cfg.memoryOf(cfg.specs(cfg.Trains, cfg.Samples), int64(Machine().Available))
}
