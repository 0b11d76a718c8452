package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/modelfile"
	"github.com/trinity-go/trinity/run"
)

func convertCommand() *cobra.Command {
	var out, dtype, adapter string
	cmd := &cobra.Command{
		Use:   "convert SOURCE --output DIR",
		Short: "Write a model as a Hugging Face directory: from GGUF, a checkpoint, or an adapter that is merged",
		Long: "SOURCE is a GGUF file, a model directory, a global_step_N directory of a run (or anything below it that holds the model), or a PEFT adapter\n" +
			"directory, which is merged into the base model that it names. With --adapter, SOURCE is the base model whatever the adapter names.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dtype != "f32" && dtype != "bf16" {
				return fmt.Errorf("--dtype is %q: want f32 or bf16", dtype)
			}
			if _, err := os.Stat(filepath.Join(out, "config.json")); err == nil {
				return fmt.Errorf("%s holds a model already: choose another --output", out)
			}
			if err := convert(cmd.Context(), modelBelow(args[0]), adapter, out, dtype); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "directory to write")
	cmd.Flags().StringVar(&adapter, "adapter", "", "PEFT adapter directory, or checkpoint of a LoRA run, to merge into SOURCE")
	cmd.Flags().StringVar(&dtype, "dtype", "f32", "number type to write: f32, which loses nothing, or bf16")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// modelBelow finds the model or adapter directory of a checkpoint.
func modelBelow(path string) string {
	if !exists(path) {
		return path // a hub name, or a mistake
	}
	for _, sub := range []string{run.AdapterDir, run.ModelDir} {
		for _, base := range []string{path, filepath.Dir(path)} {
			if dir := filepath.Join(base, sub); exists(dir) {
				return dir
			}
		}
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// convert writes source, or the base that source names, with the adapter merged.
func convert(ctx context.Context, source, adapter, out, dtype string) error {
	base, err := baseAndAdapter(source, &adapter)
	if err != nil {
		return err
	}
	say := func(line string) { fmt.Fprintln(os.Stderr, line) }
	if base, err = run.ResolveModel(ctx, base, say); err != nil {
		return err
	}
	model, err := modelfile.Open(base)
	if err != nil {
		return err
	}
	defer model.Close()
	var weights modelfile.Source = model
	if adapter != "" {
		update, err := modelfile.OpenAdapter(adapter, model.Config)
		if err != nil {
			return err
		}
		defer update.Close()
		weights = modelfile.Merge(model, update)
	}
	text, err := run.OpenText(base, run.TextOptions{})
	if err != nil {
		return err
	}
	if err := modelfile.WriteDir(out, model.Config, weights, dtype); err != nil || text.Tokenizer == nil {
		return err
	}
	return text.Tokenizer.WriteFiles(out)
}

// baseAndAdapter finds the base model and, if one is to be merged, the adapter's directory.
func baseAndAdapter(source string, adapter *string) (base string, err error) {
	named, isAdapter, err := adapterBase(source)
	switch {
	case err != nil:
		return "", err
	case *adapter != "" && isAdapter:
		return "", fmt.Errorf("%s is an adapter, and so is --adapter: name the base model in place of the first", source)
	case *adapter != "":
		*adapter = modelBelow(*adapter)
		return source, nil
	case isAdapter:
		*adapter = source
		return named, nil
	}
	return source, nil
}
