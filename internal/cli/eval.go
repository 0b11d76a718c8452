package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func evalCommand() *cobra.Command {
	var model modelFlags
	var data beginning
	var reward string
	var replies, reply int
	var temperature float64
	cmd := &cobra.Command{
		Use:   "eval --model PATH --data FILE --reward NAME [key=value …]",
		Short: "Evaluate a model on questions",
		Long: "Answer the questions of a file and print the mean of the reward and of its parts. The settings of the taskset\n" +
			"are below buffer.explorer_input.eval_tasksets.0, for example\n" +
			"'buffer.explorer_input.eval_tasksets.0.reward_fn_args={answer: whole}'.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := data.columns(cmd); err != nil {
				return err
			}
			format := map[string]string{"prompt_key": data.Prompt}
			if data.Answer != "" {
				format["response_key"] = data.Answer
			}
			taskset := map[string]any{
				"name": "data", "path": data.Data, "format": format,
				"repeat_times": replies, "rollout_args": map[string]float64{"temperature": temperature},
				"default_workflow_type": "simple_workflow", "default_reward_fn_type": reward,
			}
			settings := []string{
				setting("buffer.explorer_input.eval_tasksets", []any{taskset}), fmt.Sprintf("model.max_response_tokens=%d", reply),
			}
			summary, err := model.runAlone(cmd, "bench", append(settings, args...))
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, e := range summary.Stages[0].Evals {
				fmt.Fprintf(w, "%s\t%.4g\n", strings.TrimPrefix(e.Name, "bench/data/"), e.Value)
			}
			return w.Flush()
		},
	}
	model.addAlone(cmd)
	data.addColumns(cmd)
	cmd.Flags().StringVarP(&data.Data, "data", "d", "",
		"questions with answers: a file (.csv, .jsonl, .json, .parquet, .arrow) or a directory")
	cmd.Flags().StringVarP(&reward, "reward", "r", "", "reward function: trinity list reward_fn")
	cmd.Flags().IntVarP(&replies, "n", "n", 1, "replies to each question")
	cmd.Flags().Float64Var(&temperature, "temperature", 0, "sampling temperature; 0 is greedy")
	cmd.Flags().IntVar(&reply, "max-tokens", 256, "most tokens of a reply")
	for _, name := range []string{"data", "reward"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flags were added above
		}
	}
	return cmd
}
