package run_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/trinitytest"
)

// counting are parts of an algorithm whose results depend on how often they were asked.
const counting = `
class Counts:
    def __init__(self):
        self.asked = 0

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]

    def factor(self):
        self.asked += 1
        return 1 + 0.1 * self.asked


class Loss(Counts):
    def __call__(self, logprob, advantages, action_mask):
        factor, n = self.factor(), sum(map(sum, action_mask))
        by = [[-factor * a * m / n for a, m in zip(*row)] for row in zip(advantages, action_mask)]
        return sum(d * lp for row, lps in zip(by, logprob) for d, lp in zip(row, lps)), {"logprob": by}, {"asked": self.asked}


class KL(Counts):
    def calculate_kl(self, logprob, ref_logprob):
        factor = self.factor()
        return [[factor * (a - b) for a, b in zip(*row)] for row in zip(logprob, ref_logprob)], [[factor] * len(row) for row in logprob]


class Bonus(Counts):
    def __call__(self, entropy, action_mask):
        factor, n = 0.01 * self.factor(), sum(map(sum, action_mask))
        return factor * sum(map(sum, entropy)) / n, {"entropy": [[factor * m / n for m in row] for row in action_mask]}


class Advantage(Counts):
    def process(self, exps):
        factor = self.factor()
        for e in exps:
            e.advantages = [factor * (e.reward - 0.4) * m for m in e.action_mask]
        return exps, {"asked": self.asked}


class Later(Advantage):
    async def process(self, exps):
        return super().process(exps)

`

func init() { bridge.Allow(func(string) {}) }

// inTrainer is an advantage function that the trainer asks.
const inTrainer = `

class InTrainer(Advantage):
    compute_in_trainer = True

    def __call__(self, exps):
        factor = self.factor()
        reward = exps.batch["token_level_rewards"].sum(-1, keepdim=True)
        exps.batch["advantages"] = factor * (reward - 0.4) * exps.batch["response_mask"]
        return exps, {}
`

// A run that is killed and resumed ends with the bytes of one that is not, whatever its parts in Python count.
func TestStatesInPythonAreResumed(t *testing.T) {
	trinitytest.AllowPython(t)
	resumesStates(t, counting, "Advantage", 3, []string{"trainer.saved=kill@1", "explorer.delivered=kill@1"})
	resumesStates(t, counting, "Later", 3, []string{"trainer.updated=kill@3", "explorer.deliver=kill@2"})
}

func TestCompatStatesAreResumed(t *testing.T) {
	python := trinitytest.CompatPython(t)
	resumesStates(t, counting+inTrainer, "InTrainer", 4, []string{"trainer.updated=kill@4"}, "python.interpreter="+python)
}

// resumesStates kills runs at failpoints. The last checkpoint has the states of so many parts.
func resumesStates(t *testing.T, module, advantage string, parts int, kills []string, more ...string) {
	t.Helper()
	whole := newProject(t, tiny, rl)
	write(t, filepath.Join(whole.dir, "counting.py"), module)
	p := whole.copyOf(t)
	settings := func() []string {
		return append([]string{
			"algorithm.policy_loss_fn=counting.Loss", "algorithm.kl_loss_fn=counting.KL", "algorithm.kl_loss_fn_args.kl_coef=0.1",
			"algorithm.entropy_loss_fn=counting.Bonus", "algorithm.advantage_fn=counting." + advantage, "buffer.total_steps=6",
			"synchronizer.sync_offset=1",
		}, more...)
	}
	whole.start(t, nil, settings()...).finish(t)
	for _, how := range kills {
		c := p.start(t, []string{failpoint.Variable + "=" + how}, settings()...)
		if err := <-c.done; !wasKilled(err) {
			t.Fatalf("%s: %v\n%s", how, err, &c.output)
		}
	}
	p.start(t, nil, settings()...).finish(t)
	last := filepath.Join("global_step_6", "actor")
	sameFiles(t, filepath.Join(p.job(), last), filepath.Join(whole.job(), last))
	var states [2]struct {
		Algorithm struct{ Parts map[string]json.RawMessage }
	}
	for k, of := range []project{p, whole} {
		if err := json.Unmarshal([]byte(read(t, filepath.Join(of.job(), "global_step_6", "run.json"))), &states[k]); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := encode(t, states[0]), encode(t, states[1]); got != want || len(states[0].Algorithm.Parts) != parts {
		t.Errorf("the states are %s, want %s", got, want)
	}
}

// worthy are a workflow that says what each token is worth, an operator that doubles it, and a loss that reads it.
const worthy = `
from trinity.common.experience import CustomField
from trinity.common.workflows import Workflow


class Walk(Workflow):
    def run(self):
        (e,) = self.model.chat([{"role": "user", "content": self.task.raw_task["question"]}])
        e.reward = float(len(e.response_text))
        e.info["known"] = [0.25 * i for i in range(len(e.tokens) - e.prompt_length)]
        e.custom_fields = [CustomField("known", "worth", float)]
        return [e]


def doubles(exps):
    for e in exps:
        e.info["twice"] = [2 * w for w in e.info["worth"]]
        e.custom_fields = [CustomField("twice", "twice_worth", float)]
    return exps


def reads(logprob, action_mask, worth, twice_worth):
    lengths = [int(sum(row)) for row in action_mask]
    assert [row[:n] for row, n in zip(worth, lengths)] == [[0.25 * i for i in range(n)] for n in lengths], worth
    assert twice_worth == [[2 * w for w in row] for row in worth], twice_worth
    return 0.0, {"logprob": worth}, {"worth": sum(map(sum, worth))}
`

// What a workflow in Python says of each token is a stream of a loss.
func TestCustomFieldsReachTheLoss(t *testing.T) {
	trinitytest.AllowPython(t)
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.dir, "worthy.py"), worthy)
	_, err := p.run(t, noEvaluation, "buffer.total_steps=2", "buffer.explorer_input.taskset.default_workflow_type=worthy.Walk",
		"buffer.explorer_input.default_reward_fn_type=", "algorithm.policy_loss_fn=worthy.reads",
		"data_processor.experience_pipeline.operators=[{name: worthy.doubles}]")
	if err != nil {
		t.Fatal(err)
	}
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	if strings.Count(metrics, `"actor/worth":`) != 2 || strings.Contains(metrics, `"actor/worth":0,`) {
		t.Error(metrics)
	}
}
