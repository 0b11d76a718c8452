package run_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
)

// layoutsConfig is a run to which the layouts of the guide add how many GPUs it has, and for what.
const layoutsConfig = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
model: {model_path: DIR/model, max_prompt_tokens: 40, max_response_tokens: 8}
algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none}
buffer:
  total_steps: 4
  batch_size: 8
  explorer_input:
    taskset: {name: digits, path: DIR/train.jsonl, format: {prompt_key: question, response_key: answer}}
    default_workflow_type: simple_workflow
    default_reward_fn_type: test_even
`

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// The layouts in the guide are accepted, and give trainer and servers the GPUs of which the guide speaks.
func TestLayoutsInTheGuide(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../../docs/guide/gpu.md"), "<!-- layouts -->")
	section, _, _ = strings.Cut(section, "<!-- end -->")
	want := []string{
		"trainer 1×1, rollout-0 1×1",
		"trainer 1×4, rollout-0 1×1, rollout-1 1×1, rollout-2 1×1, rollout-3 1×1",
		"trainer 2×8, rollout-0 1×4, rollout-1 1×4, rollout-2 1×4, rollout-3 1×4",
	}
	blocks := yamlBlock.FindAllStringSubmatch(section, -1)
	if len(blocks) != len(want) {
		t.Fatalf("the guide has %d layouts, want %d", len(blocks), len(want))
	}
	for i, block := range blocks {
		p := newProject(t, tiny, layoutsConfig+block[1])
		plan, err := p.load(t).PlanStages(settle.Facts)
		if err != nil || !strings.Contains(plan.String(), "\n  program ") {
			t.Fatalf("%s: %v", block[1], err)
		}
		text, err := settle.RenderPrograms(p.load(t))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range renderedProgram.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1]+" "+m[2]+"×"+m[3])
		}
		if said := strings.Join(got, ", "); said != want[i] {
			t.Errorf("layout %d: %s, want %s", i+1, said, want[i])
		}
	}
}

// The memory of the layouts in the guide follows from the numbers of parameters, ranks and GPUs.
func TestMemoryOfTheLayoutsInTheGuide(t *testing.T) {
	page := read(t, "../../docs/guide/gpu.md")
	for _, l := range []struct {
		layout, model   string
		parameters      float64
		ranks, parallel float64
	}{
		{"1 GPU", "Qwen2.5-1.5B", 1_543_714_304, 1, 1},
		{"8 GPUs", "Qwen2.5-7B", 7_615_616_512, 4, 1},
		{"4 machines", "Qwen2.5-14B", 14_770_033_664, 16, 4},
	} {
		const gb = 1e9
		row := fmt.Sprintf("| %s | %s, %.2f·10⁹ | %.1f | %.1f |\n", l.layout, l.model, l.parameters/gb,
			16*l.parameters/l.ranks/gb, 2*l.parameters/l.parallel/gb)
		if !strings.Contains(page, row) {
			t.Errorf("the guide lacks the row %s", row)
		}
	}
}
