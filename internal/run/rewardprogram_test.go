package run_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A reward program runs once for the training and the evaluation of a stage, and ends with it. It has
// the variables of explorer.env_vars, which the process has no longer than the stage.
func TestARewardProgramLastsAsLongAsTheStage(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	p := newProject(t, tiny, strings.ReplaceAll(rl, "test_even", "exec"))
	const script = `echo began >> "$REWARD_LIFE"
n=0
while read -r line; do
  n=$((n+1)); echo "heard $n" >&2
  case $line in *'"eval":true'*) echo '{"parts": {"tested": 1}}'; continue;; esac
  echo "{\"reward\": $((n % 2)), \"parts\": {\"odd\": $((n % 2))}}"
done
echo ended >> "$REWARD_LIFE"`
	life := filepath.Join(p.dir, "life")
	write(t, filepath.Join(p.dir, "reward.sh"), script)
	args := "reward_fn_args.command=[sh, " + filepath.Join(p.dir, "reward.sh") + "]"
	if _, err := p.run(t, "buffer.explorer_input.taskset."+args, "buffer.explorer_input.eval_tasksets.0."+args,
		"explorer.env_vars.REWARD_LIFE="+life); err != nil {
		t.Fatal(err)
	}
	if _, left := os.LookupEnv("REWARD_LIFE"); left {
		t.Error("the variable has outlived the stage")
	}
	if got := read(t, life); got != "began\nended\n" {
		t.Errorf("the program's life: %q", got)
	}
	if log := read(t, filepath.Join(p.job(), "log", "plugins.log")); !strings.HasPrefix(log, "heard 1\nheard 2\n") {
		t.Errorf("plugins.log begins %.40q", log)
	}
	if odd := curve(t, p.job(), "explorer", "rollout/odd/mean"); len(odd) != 8 {
		t.Errorf("the part in training is %v, want 8 steps", odd)
	}
	if tested := curve(t, p.job(), "explorer", "eval/few/tested/mean@2"); len(tested) == 0 || mean(tested) != 1 {
		t.Errorf("the part in evaluations is %v, want ones", tested)
	}
}

// A program that does not start ends the run with what it said.
func TestABrokenRewardProgramEndsTheRun(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	p := newProject(t, tiny, strings.ReplaceAll(rl, "test_even", "exec"))
	_, err := p.run(t, noEvaluation, "buffer.explorer_input.taskset.reward_fn_args.command=[sh, -c, 'echo no module named judge >&2; exit 1']")
	oneLine(t, err, "failed or have no valid reward", "sh -c", "no module named judge")
}
