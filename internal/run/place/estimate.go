package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
)

// speedGauge is a plug-in that can tell how fast this machine computes for it.
type speedGauge interface {
	// Speed returns operations a second of matrix products, and bytes a second of reads from memory.
	Speed() (operations, bytes float64, err error)
}

// Shares of the measured speed that the embedded engine reaches, and what a sampled token costs
// besides its products, in seconds. They are fits to measured runs: docs/operate/planning.md.
const (
	trainShare   = 0.55
	prefillShare = 0.55
	decodeShare  = 0.45
	tokenSeconds = 20e-6
)

// estimate computes how long the steps of a stage take on this machine.
type estimate struct {
	explores, trains bool
	layers, head     float64 // parameters in matrices, per token; no head for a reward model
	keys             float64 // attention: operations per query and key
	cache            float64 // bytes of keys and values per token
	trained          float64 // parameters
	operations, read float64 // of the machine, per second

	prompt, response float64 // tokens, means
	group            float64 // rollouts per task
	rollouts, slots  float64 // of an explore step; at once
	rows             float64 // experiences of a train step
	evaluated        float64 // rollouts of an evaluation
	epochs, updates  float64 // passes over a batch; optimizer steps

	int8, lora, reference, recomputes, critic bool
	teachers                                  float64
}

// Tokens are what a stage trains and samples.
type Tokens struct {
	Trained          int64   // parameters
	Prompt, Response float64 // tokens, means
	Evaluated        int     // rollouts of an evaluation
	Lengths          string  // where the means come from
}

// TellsSpeed reports whether the stage's engine can tell how fast it is. It notes in f which one cannot.
func (m *Forecast) TellsSpeed(f *config.Facts) bool {
	gauge, name := m.gauge()
	if gauge == nil {
		f.TimeWhy = fmt.Sprintf("engine %s does not tell how fast it is", name)
	}
	return gauge != nil
}

// gauge returns the engine that computes most, nil if it cannot tell how fast it is, and its name.
func (m *Forecast) gauge() (gauge speedGauge, name string) {
	if m.Engines.Trainer != nil {
		gauge, _ = m.Engines.Trainer.(speedGauge)
		return gauge, m.Config.Engines.Train
	}
	gauge, _ = m.Engines.Sampler.(speedGauge)
	return gauge, m.Config.Engines.Sample
}

// attending counts the layers with attention: the others read a few tokens, however many there are.
func attending(c *model.Config) (layers int) {
	for layer := range c.NumLayers {
		if !c.Convolves(layer) {
			layers++
		}
	}
	return layers
}

// Time returns how long the steps of a stage take whose engine can tell how fast it is.
func (m *Forecast) Time(of Tokens) (*config.TimeFacts, error) {
	s, c := m.Config, m.Model
	vocabulary := float64(c.VocabSize) * float64(c.HiddenSize)
	b := &s.Batch
	e := &estimate{
		explores: s.Explores, trains: s.Trains, layers: float64(c.ActiveParameters()) - vocabulary, head: vocabulary,
		keys: 4 * float64(c.NumHeads*c.HeadDim*attending(c)), cache: 8 * float64(c.NumKVHeads*c.HeadDim*attending(c)),
		trained: float64(of.Trained), group: float64(max(1, s.Method.GroupSize)), rollouts: float64(b.StepRollouts),
		slots: float64(b.Sequences), rows: float64(b.Train * b.PerRow), epochs: float64(max(1, b.Epochs)),
		updates: math.Ceil(float64(b.Train) / float64(max(1, b.Mini))), int8: s.Explorer.RolloutModel.Quantization == "int8",
		lora: len(s.Model.LoraConfigs) > 0, reference: s.Method.Reference, recomputes: s.Method.Recomputes && !s.ReadsDataset,
		prompt: of.Prompt, response: of.Response, evaluated: float64(of.Evaluated),
		critic: s.Critic != nil, teachers: float64(len(s.Teachers)),
	}
	if !c.TieEmbeddings {
		e.layers -= vocabulary
	}
	if s.Method.Scores {
		e.head = 0
	}
	if s.ReadsDataset {
		e.group = 1
	}
	gauge, _ := m.gauge()
	var err error
	e.operations, e.read, err = gauge.Speed()
	return e.facts(of.Lengths), err
}

// forward is the operations of a forward pass over rows of a prompt and a response. The rows of a
// group share the prompt.
func (e *estimate) forward() float64 {
	prompts := e.rows / e.group * e.prompt
	responses := e.rows * e.response
	return prompts*(2*e.layers+e.keys*e.prompt/2) + responses*(2*e.layers+2*e.head+e.keys*(e.prompt+e.response/2))
}

// train returns the seconds of a train step, by part.
func (e *estimate) train() (gradient, passes, update float64) {
	if !e.trains {
		return 0, 0, 0
	}
	pass := e.forward() / (trainShare * e.operations)
	gradient = 3 * pass * e.epochs
	if e.lora { // frozen matrices have no gradient
		gradient = 2 * pass * e.epochs
	}
	for _, more := range []bool{e.reference, e.recomputes} {
		if more {
			passes += pass
		}
	}
	passes += e.teachers * pass
	if e.critic {
		gradient, passes = gradient+3*pass*e.epochs, passes+pass
	}
	const bytes = 28 // weight, gradient, two moments: read, and all but the gradient written
	return gradient, passes, e.updates * e.epochs * bytes * e.trained / e.read
}

// explore returns the seconds of so many rollouts.
func (e *estimate) explore(rollouts float64) float64 {
	if rollouts == 0 {
		return 0
	}
	prompts := rollouts / e.group
	prefill := prompts * (e.prompt*(2*e.layers+e.keys*e.prompt/2) + 2*e.head) / (prefillShare * e.operations)
	batch := min(rollouts, max(1, e.slots))
	bytes, rate := 4., 1.
	if e.int8 {
		bytes, rate = 1.1, 1.5
	}
	context := e.prompt + e.response/2
	reading := (bytes*(e.layers+e.head) + batch*context*e.cache) / e.read
	computing := batch * (2*(e.layers+e.head)/rate + e.keys*context) / (decodeShare * e.operations)
	turns := e.response * rollouts / batch
	return prefill + turns*(max(reading, computing)+batch*tokenSeconds)
}

// step returns the seconds of a step of explorer and trainer.
func (e *estimate) step() float64 {
	gradient, passes, update := e.train()
	seconds := gradient + passes + update
	if e.explores {
		seconds += e.explore(e.rollouts)
	}
	return seconds
}

// facts returns the estimate as facts of a plan.
func (e *estimate) facts(lengths string) *config.TimeFacts {
	gradient, passes, update := e.train()
	t := &config.TimeFacts{Train: gradient + passes + update, Evaluation: e.explore(e.evaluated), Lengths: lengths}
	if e.explores {
		t.Explore = e.explore(e.rollouts)
	}
	for _, part := range []struct {
		name    string
		seconds float64
	}{{"rollouts", t.Explore}, {"gradient", gradient}, {"other passes", passes}, {"optimizer", update}} {
		if part.seconds > 0 {
			t.Parts = append(t.Parts, config.TimePart{Name: part.name, Seconds: part.seconds})
		}
	}
	t.Faster = e.faster()
	return t
}

// faster lists the settings that would make a step at least a tenth shorter, the best first.
func (e *estimate) faster() []string {
	type gain struct {
		setting string
		share   float64
	}
	var gains []gain
	now := e.step()
	try := func(setting string, change func(*estimate)) {
		other := *e
		change(&other)
		if share := 1 - other.step()/now; share >= 0.1 {
			gains = append(gains, gain{setting, share})
		}
	}
	if e.explores {
		try("explorer.rollout_model.quantization=int8", func(o *estimate) { o.int8 = true })
		try("half of model.max_response_tokens", func(o *estimate) { o.response /= 2 })
	}
	if e.trains {
		if e.head > 0 { // all weights of a reward model are trained
			try("model.lora_configs (an adapter)", func(o *estimate) { o.lora = true })
		}
		try("algorithm.rollout_correction.bypass_mode=true", func(o *estimate) { o.recomputes = false })
		try("no KL term (algorithm.kl_loss_fn=none)", func(o *estimate) { o.reference = false })
		try("algorithm.advantage without a critic", func(o *estimate) { o.critic = false })
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return cmp.Compare(b.share, a.share) })
	var words []string
	for _, g := range gains {
		words = append(words, fmt.Sprintf("%s: −%.0f %%", g.setting, 100*g.share))
	}
	return words
}
