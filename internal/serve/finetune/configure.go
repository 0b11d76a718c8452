package finetune

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"text/template"

	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// Names in a job's directory. Its run is in a directory of its own beside them.
const (
	filesDir       = "uploaded"
	uploadsDir     = "uploads"
	jobsDir        = "jobs"
	jobFile        = "job.json"
	configFile     = "config.yaml"
	logFile        = "run.log"
	trainingRows   = "training.jsonl"
	validationRows = "validation.jsonl"
	adapterName    = "adapter" // that a job goes on training
	runName        = "run"
)

// What a job has unless its order says otherwise; docs/guide/finetuning.md has the table.
var (
	rates     = map[string]float64{wire.Supervised: 2e-4, wire.DPO: 2e-5, wire.Reinforcement: 1e-4} // with a multiplier of 1
	betaUsual = 0.1
)

const (
	loraRank  = 16
	rollouts  = 8   // of a task
	usualLen  = 512 // tokens of a reply
	keptSteps = 3   // checkpoints
	saves     = 10  // checkpoints and evaluations of a whole job
)

// settled are the numbers of a job.
type settled struct {
	Epochs, Batch, Steps, Every int
	Rate, Beta                  float64
	Samples, Reply              int
}

// whole returns a number of hyperparameters that is whole and from least to most, or what auto means.
func whole(key string, n *wire.Number, least, most, auto int) (int, error) {
	if n.Auto() {
		return auto, nil
	}
	v := float64(*n)
	if v != math.Trunc(v) || v < float64(least) || v > float64(most) {
		return 0, openai.Bad(key, `want "auto", or a whole number from %d to %d, got %g`, least, most, v)
	}
	return int(v), nil
}

// positive returns a number of hyperparameters that is above 0, or what auto means.
func positive(key string, n *wire.Number, most, auto float64) (float64, error) {
	if n.Auto() {
		return auto, nil
	}
	if v := float64(*n); !(v > 0 && v <= most) {
		return 0, openai.Bad(key, `want "auto", or a number above 0, at most %g, got %g`, most, v)
	}
	return float64(*n), nil
}

// settle chooses the numbers of a job with so many rows. Before they are known, rows is 0.
func settle(method string, h *wire.Hyperparameters, rows, maxLen int) (c settled, err error) {
	at := func(key string) string { return "method." + method + ".hyperparameters." + key }
	batch := 1 << max(0, bits.Len(uint(rows/64))-1) // a power of two: some 64 steps an epoch
	batch = min(batch, 32)
	if method == wire.Reinforcement {
		batch = min(max(rows, 1), 8)
	}
	if c.Batch, err = whole(at("batch_size"), h.BatchSize, 1, 4096, batch); err != nil {
		return c, err
	}
	if rows > 0 && c.Batch > rows {
		return c, openai.Bad(at("batch_size"), "want at most the rows of the training file, %d, got %d", rows, c.Batch)
	}
	epochs := 3
	if method == wire.Reinforcement { // 40 steps or more, if ten passes give them
		epochs = min(max(40*c.Batch/max(rows, 1), 1), 10)
	}
	multiplier, numbers := 1.0, []struct {
		to               *int
		key              string
		n                *wire.Number
		least, most, use int
	}{
		{&c.Epochs, "n_epochs", h.NEpochs, 1, 1000, epochs}, {&c.Samples, "eval_samples", h.EvalSamples, 1, 64, 1},
		{&c.Reply, "max_completion_tokens", h.MaxCompletionTokens, 1, max(1, maxLen-1), max(1, min(usualLen, maxLen/2))},
	}
	for _, n := range numbers {
		if *n.to, err = whole(at(n.key), n.n, n.least, n.most, n.use); err != nil {
			return c, err
		}
	}
	c.Steps = max(1, rows*c.Epochs/c.Batch)
	if c.Every, err = whole(at("eval_interval"), h.EvalInterval, 1, 1<<20, max(1, c.Steps/saves)); err != nil {
		return c, err
	}
	if multiplier, err = positive(at("learning_rate_multiplier"), h.LearningRateMultiplier, 1000, 1); err != nil {
		return c, err
	}
	c.Rate = rates[method] * multiplier
	c.Beta, err = positive(at("beta"), h.Beta, 100, betaUsual)
	return c, err
}

// hyperparameters returns the numbers as clients see them.
func (c *settled) hyperparameters(method string) *wire.Hyperparameters {
	number := func(v float64) *wire.Number { n := wire.Number(v); return &n }
	h := &wire.Hyperparameters{
		BatchSize: number(float64(c.Batch)), NEpochs: number(float64(c.Epochs)), LearningRateMultiplier: number(c.Rate / rates[method]),
	}
	switch method {
	case wire.DPO:
		h.Beta = number(c.Beta)
	case wire.Reinforcement:
		h.EvalInterval, h.EvalSamples, h.MaxCompletionTokens = number(float64(c.Every)), number(float64(c.Samples)), number(float64(c.Reply))
	}
	return h
}

//go:embed job.yaml
var jobTemplate string

// runTemplate is the configuration of a run. JSON is YAML.
var runTemplate = template.Must(template.New("job.yaml").Funcs(template.FuncMap{"json": func(v any) (string, error) {
	text, err := web.Encode(v)
	return string(text), err
}}).Parse(jobTemplate))

// terms are what the configuration of a job's run is made of.
type terms struct {
	Options
	Job                                     *job
	Base                                    Base
	Adapter                                 string // directory; "" for a new one
	Numbers                                 *settled
	Grader                                  any
	Judges                                  []map[string]any
	IsRL, IsDPO                             bool
	Rank, Rollouts, WarmUp, SaveEvery, Kept int
}

// configure returns the configuration of a job's run. Its paths are below the job's directory.
func (o *Options) configure(j *job, c *settled) ([]byte, error) {
	t := terms{
		Options: *o, Job: j, Numbers: c, IsRL: j.Method.Type == wire.Reinforcement, IsDPO: j.Method.Type == wire.DPO, Rank: loraRank,
		Rollouts: rollouts, WarmUp: min(10, c.Steps/10), SaveEvery: max(1, c.Steps/saves), Kept: keptSteps,
	}
	var err error
	if t.Base, err = o.baseOf(j.Base); err == nil && j.Model != j.Base {
		t.Adapter = adapterName
	}
	if err == nil && t.IsRL {
		var object any
		err = json.Unmarshal(j.terms().Grader, &object)
		t.Grader, t.Judges = escaped(object), o.judges(object)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = runTemplate.Execute(&out, &t)
	return out.Bytes(), err
}

var interpolation = regexp.MustCompile(`(\\*)\$\{`)

// escaped returns a value of a client in which ${…} is text: a configuration would replace it, by a variable of the
// environment, say.
func escaped(value any) any {
	switch v := value.(type) {
	case string:
		return interpolation.ReplaceAllString(v, `$1$1\$${`)
	case map[string]any:
		out := map[string]any{}
		for key, part := range v {
			out[key] = escaped(part)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, part := range v {
			out[i] = escaped(part)
		}
		return out
	}
	return value
}

// judges returns the models of this service that a grader asks.
func (o *Options) judges(object any) (all []map[string]any) {
	for _, name := range modelsOf(object) {
		if b, err := o.baseOf(name); err == nil {
			all = append(all, map[string]any{"name": name, "model_path": b.Path, "max_model_len": b.MaxLen})
		}
	}
	return all
}

// modelsOf returns the names of models in a grader object, sorted, each once.
func modelsOf(object any) (names []string) {
	switch v := object.(type) {
	case map[string]any:
		if kind, _ := v["type"].(string); kind == "score_model" || kind == "label_model" {
			if name, _ := v["model"].(string); name != "" {
				names = append(names, name)
			}
		}
		for _, part := range v {
			names = append(names, modelsOf(part)...)
		}
	case []any:
		for _, part := range v {
			names = append(names, modelsOf(part)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
