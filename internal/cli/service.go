package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/service"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/registry"
)

func serviceCommand() *cobra.Command {
	var models, trainerArgs, samplerArgs []string
	o := service.Options{}
	cmd := &cobra.Command{
		Use:   "service --dir DIR --model NAME=PATH",
		Short: "Train and sample for clients of the Tinker API, and of OpenAI's",
		Long: "Serve training and sampling of adapters at /api/v1 until Ctrl-C, for the SDK tinker and what is built on it:\n" +
			"TINKER_BASE_URL=http://127.0.0.1:8000 TINKER_API_KEY=tml-local python my_loop.py. Checkpoints lie in --dir.\n" +
			"At /v1 and /oai/api/v1 the models, and checkpoints by their paths, answer OpenAI's and Anthropic's clients.\n" +
			"Another service with this --dir goes on where this one ended, also after a kill.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Say = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), safetext.Hidden(line)) }
			o.Token = os.Getenv("TRINITY_TOKEN")
			switch {
			case o.Alpha < 1:
				return fmt.Errorf("--lora-alpha is %d: want 1 or more", o.Alpha)
			case o.Gap <= 0:
				return fmt.Errorf("--gap-timeout is %v: want more than 0", o.Gap)
			case o.Keep <= 0:
				return fmt.Errorf("--keep is %v: want more than 0", o.Keep)
			case o.MaxLen < 0 || o.MaxLen == 1:
				return fmt.Errorf("--max-model-len is %d: want 2 or more, or 0 for the model's length", o.MaxLen)
			case o.Token != "" && !strings.HasPrefix(o.Token, "tml-"):
				return errors.New("TRINITY_TOKEN must begin with tml-: the SDK of Tinker sends no other key")
			}
			_, _, err := splitAddress(cmd, o.Address, 0)
			if err != nil {
				return err
			}
			if o.TrainerArgs, err = service.Arguments(trainerArgs); err != nil {
				return fmt.Errorf("--trainer-arg %w", err)
			}
			if o.SamplerArgs, err = service.Arguments(samplerArgs); err != nil {
				return fmt.Errorf("--sampler-arg %w", err)
			}
			for _, given := range models {
				name, path, ok := strings.Cut(given, "=")
				if !ok {
					path = name
				}
				if name == "" || path == "" {
					return fmt.Errorf("--model is %q: want NAME=PATH, or a hub name", given)
				}
				path, err := hub.Resolve(cmd.Context(), path, o.Say)
				if err != nil {
					return fmt.Errorf("--model %s: %w", given, err)
				}
				o.Models = append(o.Models, service.Model{Name: name, Path: path})
			}
			stop, cancel := interruptible(cmd.Context())
			defer cancel()
			return orInterrupted(stop, service.Run(stop, o))
		},
	}
	cmd.Flags().StringArrayVarP(&models, "model", "m", nil, "model: NAME=PATH, where clients call it NAME, or a hub name; may be repeated")
	cmd.Flags().StringVar(&o.Dir, "dir", "service", "directory of checkpoints, and of what a restart needs")
	cmd.Flags().StringVar(&o.Trainer, "trainer", registry.Trainers.Auto[0], "engine that trains")
	cmd.Flags().StringArrayVar(&trainerArgs, "trainer-arg", nil,
		"argument of --trainer, KEY=VALUE, such as python=PATH for torch (trinity explain torch); may be repeated")
	cmd.Flags().StringVar(&o.Sampler, "sampler", registry.Samplers.Auto[0], "engine that samples")
	cmd.Flags().StringArrayVar(&samplerArgs, "sampler-arg", nil,
		"argument of --sampler, KEY=VALUE, or of its servers, such as gpu_memory_utilization=0.4 or base_urls=[URL] for vllm; may be repeated")
	cmd.Flags().StringVar(&o.Address, "addr", "127.0.0.1:8000",
		"address; for one that other machines can reach, clients need keys: trinity keys, or TRINITY_TOKEN")
	cmd.Flags().IntVar(&o.MaxLen, "max-model-len", 0, "most tokens of a sequence; 0 means the model's length, at most 4096")
	cmd.Flags().IntVar(&o.Alpha, "lora-alpha", 32, "lora_alpha of new adapters, which the API does not carry")
	cmd.Flags().DurationVar(&o.Gap, "gap-timeout", 5*time.Minute, "how long a request waits for those with lower numbers")
	addKeep(cmd, &o.Keep)
	if err := cmd.MarkFlagRequired("model"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}
