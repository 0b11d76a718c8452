package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/hub"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/run/checkpoint"
)

func convertCommand() *cobra.Command {
	var out, dtype, adapter string
	cmd := &cobra.Command{
		Use:   "convert SOURCE --output DIR",
		Short: "Write a GGUF file, a checkpoint or a merged adapter as a Hugging Face directory",
		Long: "SOURCE is a GGUF file, a model directory, a run's global_step_N directory (or a folder\n" +
			"below it that holds the model), or a PEFT adapter directory, which is merged into the\n" +
			"base model that it names. With --adapter, SOURCE is the base model, and the adapter's\n" +
			"own base is ignored.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dtype != "f32" && dtype != "bf16" {
				return fmt.Errorf("--dtype is %q: want f32 or bf16", dtype)
			}
			if _, err := os.Stat(filepath.Join(out, "config.json")); err == nil {
				return fmt.Errorf("%s already holds a model: choose another --output", out)
			}
			if err := convert(cmd.Context(), checkpoint.ModelBelow(args[0]), adapter, out, dtype); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "directory to write")
	cmd.Flags().StringVar(&adapter, "adapter", "", "PEFT adapter directory, or checkpoint of a LoRA run, to merge into SOURCE")
	cmd.Flags().StringVar(&dtype, "dtype", "f32", "number type to write: f32 (lossless) or bf16")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// convert writes source as a model directory. If source is an adapter, or adapter is set, it merges
// the adapter into its base first.
func convert(ctx context.Context, source, adapter, out, dtype string) error {
	base, err := baseAndAdapter(source, &adapter)
	if err != nil {
		return err
	}
	say := func(line string) { fmt.Fprintln(os.Stderr, line) }
	if base, err = hub.Resolve(ctx, base, say); err != nil {
		return err
	}
	m, err := model.Open(base)
	if err != nil {
		return err
	}
	defer m.Close()
	var weights model.Source = m
	if adapter != "" {
		update, err := model.OpenAdapter(adapter, m.Config)
		if err != nil {
			return err
		}
		defer update.Close()
		weights = model.Merge(m, update)
	}
	text, err := renderer.Open(base, renderer.Options{})
	if err != nil {
		return err
	}
	if err := model.WriteDir(out, m.Config, weights, dtype); err != nil || text == nil {
		return err
	}
	return text.Tokenizer().WriteFiles(out)
}

// baseAndAdapter returns the base model. If there is an adapter to merge, it sets adapter to its
// directory.
func baseAndAdapter(source string, adapter *string) (base string, err error) {
	named, isAdapter, err := model.AdapterBase(source)
	switch {
	case err != nil:
		return "", err
	case *adapter != "" && isAdapter:
		return "", fmt.Errorf("%s is an adapter, and so is --adapter: name the base model as SOURCE", source)
	case *adapter != "":
		*adapter = checkpoint.ModelBelow(*adapter)
		return source, nil
	case isAdapter:
		*adapter = source
		return named, nil
	}
	return source, nil
}
