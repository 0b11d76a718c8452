package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// Model is the model that a run trains, and how it samples unless a taskset sets its own sampling.
type Model struct {
	// Directory in Hugging Face layout, GGUF file, hub name `org/name`, checkpoint `global_step_N`, or
	// PEFT adapter, which is the first of lora_configs beside its base model.
	ModelPath string `yaml:"model_path"`
	// Run Python code that comes with a model (GPU engines).
	TrustRemoteCode bool `yaml:"trust_remote_code"`
	// Model that the critic starts from: a language model or a saved critic, with the policy's
	// tokenizer; empty is model_path. The critic trains all weights, even if lora_configs is set.
	CriticModelPath string `yaml:"critic_model_path"`
	// Random initialisation of a model directory that has config.json but no weights. Own section of
	// Trinity-Go.
	Init Init `yaml:"init"`
	// Chat template as Jinja text; wins over chat_template_path.
	CustomChatTemplate string `yaml:"custom_chat_template"`
	// File with a chat template.
	ChatTemplatePath string `yaml:"chat_template_path"`
	// Sampling temperature; 0 is greedy.
	Temperature float64 `yaml:"temperature" default:"1.0" range:"[0,)"`
	// Sample from the most likely tokens whose probabilities sum to top_p. Tokens that are trained on
	// need 1, unless the algorithm learns the text itself; set it in rollout_args of eval_tasksets.
	TopP float64 `yaml:"top_p" default:"1.0" range:"(0,1]"`
	// Sample from this many most likely tokens; -1 is all, which tokens that are trained on need, as for
	// top_p.
	TopK int `yaml:"top_k" default:"-1" range:"[-1,)"`
	// Number of alternative tokens to return with logprobs; 0 returns only the sampled token's.
	Logprobs int `yaml:"logprobs" default:"0" range:"[0,)"`
	// Longest sequence of prompt and response together, in tokens; left out is max_prompt_tokens +
	// max_response_tokens.
	MaxModelLen *int `yaml:"max_model_len" range:"[2,)"`
	// Longest prompt, in tokens; left out is max_model_len − max_response_tokens, or half of
	// max_model_len.
	MaxPromptTokens *int `yaml:"max_prompt_tokens" range:"[1,)"`
	// Longest response, in tokens; left out is max_model_len − max_prompt_tokens, or half of
	// max_model_len.
	MaxResponseTokens *int `yaml:"max_response_tokens" range:"[1,)"`
	// Shortest response, in tokens.
	MinResponseTokens int `yaml:"min_response_tokens" default:"0" range:"[0,)"`
	// Turn a prompt that is too long into a dummy experience without any effect on training, instead
	// of an error.
	EnablePromptTruncation bool `yaml:"enable_prompt_truncation" default:"true"`
	// Divide the logits of tokens already seen; 1 is off, which tokens that are trained on need.
	RepetitionPenalty float64 `yaml:"repetition_penalty" default:"1.0" range:"(0,)"`
	// The chat template's flag of the same name; not set leaves it to the template.
	EnableThinking *bool `yaml:"enable_thinking"`
	// Low-rank adapters. The run trains the first one instead of all weights. It only samples from
	// further ones, for tasksets that name them in rollout_args; Trinity-RFT has one adapter only.
	LoraConfigs []Lora `yaml:"lora_configs"`
	// Shard LoRA layers over tensor-parallel ranks.
	FullyShardedLoras bool `yaml:"fully_sharded_loras"`
	// LoRA adapters that a GPU engine keeps in host memory.
	MaxCPULoras *int `yaml:"max_cpu_loras" range:"[1,)"`
	// Rope scaling, in place of the model's own.
	RopeScaling map[string]any `yaml:"rope_scaling"`
	// Rope base, in place of the model's own.
	RopeTheta *float64 `yaml:"rope_theta" range:"(0,)"`
	// Training through the Tinker API.
	Tinker Tinker `yaml:"tinker"`
	// A model behind an OpenAI-compatible API that answers in place of the rollout model, in mode bench and in mode
	// explore to a file. model_path then has the tokenizer and the chat template that write its replies.
	ExternalModel ExternalModel `yaml:"external_model"`
}

// Init is how a run draws random weights for a model without weights.
type Init struct {
	// Seed of the weights; not set is the run's seed.
	Seed *int `yaml:"seed"`
	// `hf` is N(0, initializer_range²) as in transformers; `fan_in` is N(0, 1/fan_in) for linear
	// weights, which tiny models need.
	Style string `yaml:"style" default:"hf" enum:"hf|fan_in"`
}

// Lora is a low-rank adapter.
type Lora struct {
	// Name of the adapter, for rollout_args of tasksets. Tasksets that name none sample the first
	// adapter, which the run trains. Further adapters need a name and a path.
	Name string `yaml:"name"`

	engine.LoRASpec `yaml:",inline"`
	// Number type of the adapter's weights.
	LoraDtype string `yaml:"lora_dtype" default:"auto"`
}

// ExternalModel is a model that a run calls and never trains.
type ExternalModel struct {
	// Call the external model instead of loading one. It sets engine_type of the rollout model, and that sets it.
	Enable bool `yaml:"enable"`
	// Environment variable with the API's address.
	BaseURLEnv string `yaml:"base_url_env" default:"OPENAI_BASE_URL"`
	// Environment variable with the API's key.
	APIKeyEnv string `yaml:"api_key_env" default:"OPENAI_API_KEY"`
	// Name of the model at the API.
	ModelName string `yaml:"model_name"`
	// Address of the API, such as http://127.0.0.1:8000/v1; not set is that of base_url_env. Own key of
	// Trinity-Go.
	BaseURL string `yaml:"base_url"`
	// Seconds for one answer. Own key of Trinity-Go.
	Timeout float64 `yaml:"timeout" default:"120" range:"(0,)"`
	// Retries without a connection, without an answer in time, or after the status 408, 409, 429 or 5xx.
	// Own key of Trinity-Go.
	MaxRetries int `yaml:"max_retries" default:"5" range:"[0,)"`
	// Questions, each with its retries, after which the run ends with an error, counted from its start; 0 is no bound.
	// Own key of Trinity-Go.
	MaxRequests int `yaml:"max_requests" range:"[0,)"`
	// Tokens of questions and answers, as the server counts them, after which the run ends with an error; answers in
	// flight may exceed them; 0 is no bound. Own key of Trinity-Go.
	MaxTokens int `yaml:"max_tokens" range:"[0,)"`
}

// Adapter returns the value of SamplingParams.Adapter for an adapter that rollout_args names: ""
// for the trained adapter, which is the policy.
func (m *Model) Adapter(name string) string {
	if len(m.LoraConfigs) > 0 && name == m.LoraConfigs[0].Name {
		return ""
	}
	return name
}

// SampledAdapters returns all adapters but the first, which is the trained one.
func (m *Model) SampledAdapters() []Lora {
	if len(m.LoraConfigs) < 2 {
		return nil
	}
	return m.LoraConfigs[1:]
}

// adapterNames returns the names that rollout_args may use.
func (m *Model) adapterNames() []string {
	if len(m.LoraConfigs) == 0 {
		return nil
	}
	names := []string{trinity.BaseAdapter}
	for _, l := range m.LoraConfigs {
		if l.Name != "" {
			names = append(names, l.Name)
		}
	}
	return names
}

// checkAdapters checks the list of adapters.
func (model *Model) checkAdapters(r report) {
	seen := map[string]int{trinity.BaseAdapter: -1}
	for i, l := range model.LoraConfigs {
		key := fmt.Sprintf("model.lora_configs.%d", i)
		if i > 0 && l.Name == "" {
			r.fail(key, "the adapter has no name", "only the first adapter is trained; name a further one, for rollout_args.adapter of a taskset")
			continue
		}
		if i > 0 && l.Path == "" {
			r.fail(key, fmt.Sprintf("adapter %q has no path", l.Name),
				"only the first adapter is trained; a further one is read from a PEFT directory")
		}
		if other, twice := seen[l.Name]; twice && l.Name != "" {
			of := "the model without adapters"
			if other >= 0 {
				of = fmt.Sprintf("model.lora_configs.%d", other)
			}
			r.fail(key+".name", fmt.Sprintf("%q is also the name of %s", l.Name, of), "choose another name")
		}
		seen[l.Name] = i
	}
}

// checkTasksetAdapter checks the adapter that samples a taskset.
func (model *Model) checkTasksetAdapter(r report, w Work, t TasksetEntry) {
	key, name := t.Key+".rollout_args.adapter", t.RolloutArgs.Adapter
	names := model.adapterNames()
	switch {
	case name == "":
	case len(names) == 0:
		r.fail(key, fmt.Sprintf("there is no adapter %q", name), "list adapters in model.lora_configs")
	case !slices.Contains(names, name):
		r.fail(key, fmt.Sprintf("there is no adapter %q", name), "adapters are "+strings.Join(names, ", "))
	case !t.Eval && w.Together && model.Adapter(name) != "":
		r.fail(key, fmt.Sprintf("%q is not the trained adapter", name),
			"the policy samples training tasks; leave it out, or use an evaluation taskset or mode explore")
	}
}

var unusedOfModel = []unusedKey{
	{tinkerKey, func(s *Settled, key string) string { return s.Model.Tinker.unused(&s.Engines, key) }},
	{externalKey, func(s *Settled, key string) string {
		if s.Model.ExternalModel.answers(s.Work) {
			return ""
		}
		return "no external model is used"
	}},
	{"model.init", decidedByAPI},
	{"explorer.rollout_model.keep_thinking", decidedByAPI},
	{"explorer.rollout_model.on_rewrite", decidedByAPI},
	{"model.critic_model_path", unless(func(s *Settled) bool { return s.Critic != nil }, noCritic)},
	{"model.logprobs", otherTokens},
	{"explorer.rollout_model.logprobs", otherTokens},
	{auxiliaryModelsKey + ".*.logprobs", otherTokens},
	{"buffer.explorer_input.taskset.rollout_args.logprobs", otherTokens},
	{"buffer.explorer_input.*.*.rollout_args.logprobs", otherTokens},
}

// otherTokens is the reason of a number of tokens beside the sampled one, unless it is 0.
func otherTokens(s *Settled, key string) string {
	if n := nodeOf(s.source.root, key); n == nil || n.Value == "0" {
		return ""
	}
	return "nothing reads the log-probabilities of other tokens than the sampled ones, which are always recorded"
}

// checkRewardModel checks a run that trains a reward model.
func (model *Model) checkRewardModel(r report, algorithm *Algorithm, method *Method, w Work) {
	if method.Scores && w.Trains && len(model.LoraConfigs) > 0 {
		r.fail("model.lora_configs", fmt.Sprintf("%s trains all weights of a reward model", algorithm.AlgorithmType), "remove it")
	}
}

// ChangedSampling returns the keys that change the distribution of tokens that are trained on: training
// takes the tokens for samples of the model's own. why says what is then wrong. instead follows "leave it
// out" in the hint and says what else to do. Evaluations may have any values, and so may algorithms that
// learn the text itself.
func ChangedSampling(s *Settled, why, instead string) (all []Refusal) {
	if !s.Explores && !s.Records() || s.Method.Imitates {
		return nil
	}
	why = " for tokens that are trained on: " + why
	refuse := func(owner, name string, value any) {
		all = append(all, Refusal{Key: s.Inherited(owner, name), What: fmt.Sprint(value, why), Hint: "leave it out" + instead})
	}
	const model = "explorer.rollout_model"
	m := &s.Explorer.RolloutModel
	if *m.RepetitionPenalty != 1 {
		refuse(model, "repetition_penalty", *m.RepetitionPenalty)
	}
	if *m.MinResponseTokens > 1 {
		refuse(model, "min_response_tokens", *m.MinResponseTokens)
	}
	truncates := func(owner string, topP *float64, topK *int) {
		if topP != nil && *topP < 1 {
			refuse(owner, "top_p", *topP)
		}
		if topK != nil && *topK > 0 {
			refuse(owner, "top_k", *topK)
		}
	}
	if s.Records() {
		truncates(model, m.TopP, m.TopK)
	}
	for _, t := range s.Data.Tasksets {
		if t.Eval {
			continue
		}
		truncates(t.Key+".rollout_args", t.RolloutArgs.TopP, t.RolloutArgs.TopK)
		w, err := registry.Workflows.Build(t.DefaultWorkflowType, s.Cod.ArgsOfWorkflow(t)) // another check reports the error
		if p := trinity.RequirementsOf(w).TopP; err == nil && p > 0 && p < 1 {
			all = append(all, Refusal{Key: t.Key + ".workflow_args", What: fmt.Sprintf("top_p %v of %s%s", p, t.DefaultWorkflowType, why),
				Hint: "set it to 1 there" + instead})
		}
	}
	return all
}

func (model *Model) check(r report) {
	if model.ModelPath == "" {
		r.fail(modelPathKey, "no model is given", "set it to a model directory, a GGUF file or a hub name")
	}
	model.checkAdapters(r)
}

// settleLengths applies the rules between the lengths of model, prompt and response.
func (model *Model) settleLengths(r report) {
	m := model
	switch {
	case m.MaxModelLen == nil && m.MaxPromptTokens != nil && m.MaxResponseTokens != nil:
		m.MaxModelLen = ptr(*m.MaxPromptTokens + *m.MaxResponseTokens)
		if *m.MaxModelLen > maxCount {
			r.fail("model.max_prompt_tokens",
				fmt.Sprintf("and max_response_tokens together are %d, must be at most %d", *m.MaxModelLen, maxCount), "")
			m.MaxModelLen, m.MaxPromptTokens, m.MaxResponseTokens = ptr(2), ptr(1), ptr(1)
		}
	case m.MaxModelLen == nil:
		r.fail("model", "the length of the longest sequence is not set",
			"set model.max_model_len, or both model.max_prompt_tokens and model.max_response_tokens")
		m.MaxModelLen, m.MaxPromptTokens, m.MaxResponseTokens = ptr(2), ptr(1), ptr(1)
	case m.MaxPromptTokens == nil && m.MaxResponseTokens == nil:
		m.MaxPromptTokens = ptr(*m.MaxModelLen / 2)
		m.MaxResponseTokens = ptr(*m.MaxModelLen - *m.MaxPromptTokens)
	case m.MaxPromptTokens == nil:
		m.MaxPromptTokens = remainder(r, "model.max_response_tokens", *m.MaxResponseTokens, *m.MaxModelLen)
	case m.MaxResponseTokens == nil:
		m.MaxResponseTokens = remainder(r, "model.max_prompt_tokens", *m.MaxPromptTokens, *m.MaxModelLen)
	case *m.MaxPromptTokens+*m.MaxResponseTokens > *m.MaxModelLen:
		r.fail("model.max_model_len", fmt.Sprintf("is %d, less than max_prompt_tokens %d + max_response_tokens %d", *m.MaxModelLen,
			*m.MaxPromptTokens,
			*m.MaxResponseTokens), fmt.Sprintf("set it to %d, or leave it out", *m.MaxPromptTokens+*m.MaxResponseTokens))
	}
	if m.MaxResponseTokens != nil && m.MinResponseTokens > *m.MaxResponseTokens {
		r.fail("model.min_response_tokens", fmt.Sprintf("is %d, more than the longest response of %d tokens", m.MinResponseTokens,
			*m.MaxResponseTokens), "")
	}
}

func remainder(r report, key string, given, whole int) *int {
	if given >= whole {
		r.fail(key, fmt.Sprintf("is %d, which leaves no tokens of max_model_len %d for the other part", given, whole),
			"make it smaller, or set max_model_len to prompt and response together")
		return ptr(1)
	}
	return ptr(whole - given)
}

// settleModels fills in rollout and auxiliary models from the sampling of model.
func settleModels(explorer *Explorer, model *Model, trainer *Trainer) {
	m := model
	setDefault(&m.CriticModelPath, m.ModelPath)
	setDefault(&explorer.RolloutModel.ModelPath, m.ModelPath)
	inherit(&trainer.TrustRemoteCode, &m.TrustRemoteCode)
	inherit(&m.EnableThinking, explorer.RolloutModel.EnableThinking)
	if m.ChatTemplatePath == "" {
		setDefault(&m.CustomChatTemplate, explorer.RolloutModel.ChatTemplate)
	}
	all := []*InferenceModel{&explorer.RolloutModel}
	for i := range explorer.AuxiliaryModels {
		all = append(all, &explorer.AuxiliaryModels[i])
	}
	for _, e := range all {
		inherit(&e.TrustRemoteCode, &m.TrustRemoteCode)
		inherit(&e.Temperature, &m.Temperature)
		inherit(&e.TopP, &m.TopP)
		inherit(&e.TopK, &m.TopK)
		inherit(&e.Logprobs, &m.Logprobs)
		inherit(&e.RepetitionPenalty, &m.RepetitionPenalty)
		inherit(&e.MaxModelLen, m.MaxModelLen)
		inherit(&e.MaxPromptTokens, m.MaxPromptTokens)
		inherit(&e.MaxResponseTokens, m.MaxResponseTokens)
		inherit(&e.MinResponseTokens, &m.MinResponseTokens)
		inherit(&e.EnablePromptTruncation, &m.EnablePromptTruncation)
		inherit(&e.EnableThinking, m.EnableThinking)
		inherit(&e.RopeTheta, m.RopeTheta)
		setDefault(&e.ChatTemplate, m.CustomChatTemplate)
		if e.RopeScaling == nil {
			e.RopeScaling = m.RopeScaling
		}
	}
}
