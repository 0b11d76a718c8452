package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/safetext"
)

func serveCommand() *cobra.Command {
	var model modelFlags
	var address string
	var port uint16
	var keep time.Duration
	var adapters []string
	cmd := &cobra.Command{
		Use:   "serve --model PATH [key=value …]",
		Short: "Serve a model as an OpenAI-compatible API",
		Long: "Serve a model at /v1/chat/completions, /v1/completions and /v1/responses, and at Anthropic's /v1/messages, until\n" +
			"Ctrl-C. To serve the newest weights of a run, use its configuration: trinity run FILE mode=serve.",
		RunE: func(cmd *cobra.Command, args []string) error {
			host, at, err := splitAddress(cmd, address, port)
			if err != nil {
				return err
			}
			if host == "" {
				host = "127.0.0.1"
			}
			if keep <= 0 {
				return fmt.Errorf("--keep is %v: want more than 0", keep)
			}
			named, err := adaptersOf(adapters)
			if err != nil {
				return err
			}
			settings := []string{setting("explorer.listen_address", host), "explorer.proxy_port=" + at}
			_, err = model.runAlone(cmd, "serve", append(settings, args...), run.Options{Keep: keep, Adapters: named})
			return err
		},
	}
	model.addAlone(cmd)
	cmd.Flags().StringVar(&address, "addr", "127.0.0.1:8010", "address; for one that other machines can reach, TRINITY_TOKEN must hold a key")
	cmd.Flags().StringArrayVar(&adapters, "adapter", nil,
		"NAME=DIR: a LoRA adapter, a PEFT directory, that requests name as their model; may be repeated")
	addKeep(cmd, &keep)
	cmd.Flags().Uint16Var(&port, "port", 0, "port to listen on instead of that of --addr")
	return cmd
}

// addKeep adds the flag for the time that responses are kept.
func addKeep(cmd *cobra.Command, keep *time.Duration) {
	cmd.Flags().DurationVar(keep, "keep", 24*time.Hour, "how long to keep responses, which requests continue by previous_response_id")
}

// adaptersOf returns the directories of adapters that flags give as NAME=DIR, by their names.
func adaptersOf(flags []string) (map[string]string, error) {
	named := map[string]string{}
	for _, flag := range flags {
		name, dir, ok := strings.Cut(flag, "=")
		switch {
		case !ok || name == "" || dir == "":
			return nil, fmt.Errorf("--adapter is %q: want NAME=DIR", flag)
		case named[name] != "":
			return nil, fmt.Errorf("--adapter %s is given twice: give it another name", name)
		}
		named[name] = dir
	}
	return named, nil
}

// splitAddress returns the host and the port of the flag --addr, or the port of --port if it is given.
func splitAddress(cmd *cobra.Command, address string, port uint16) (host, portText string, err error) {
	if host, portText, err = net.SplitHostPort(address); err != nil {
		return "", "", fmt.Errorf("--addr is %q: want HOST:PORT", address)
	}
	if cmd.Flags().Changed("port") {
		portText = strconv.Itoa(int(port))
	}
	return host, portText, nil
}

// setting returns an override that sets a key to a value.
func setting(key string, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // callers give text and maps of it
	}
	return key + "=" + string(text) // YAML contains JSON
}

// usualLength is the length of a sequence without --max-model-len. The K/V cache of more tokens is
// seldom of use on a CPU.
const usualLength = 4096

// addAlone adds the flags of commands that run the model alone.
func (f *modelFlags) addAlone(cmd *cobra.Command) {
	f.add(cmd)
	f.addLength(cmd)
}

// addLength adds the flag for the length of a sequence.
func (f *modelFlags) addLength(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.length, "max-model-len", 0,
		fmt.Sprintf("most tokens of a prompt with its reply; 0 means the model's length, at most %d", usualLength))
}

// runAlone runs a mode on a model, without a file and with a directory that it removes at the end.
func (f *modelFlags) runAlone(cmd *cobra.Command, mode string, settings []string, o run.Options) (summary *run.Summary, err error) {
	if _, err := f.find(cmd.Context()); err != nil {
		return nil, err
	}
	scratch, err := durable.NewScratch("trinity-" + mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	cfg, err := f.alone(mode, scratch.Dir, settings)
	if err != nil {
		return nil, err
	}
	stop, cancel := interruptible(cmd.Context())
	defer cancel()
	o.Brief, o.Say = true, func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), safetext.Hidden(line)) }
	return run.Run(cmd.Context(), stop, cfg, o)
}

// alone returns the configuration of a mode on the model that was found, which writes to dir. It sets the
// usual length if none was given.
func (f *modelFlags) alone(mode, dir string, settings []string) (*config.Config, error) {
	model, err := f.config()
	if err != nil {
		return nil, err
	}
	if f.length == 0 {
		f.length = min(model.MaxPositions, usualLength)
	}
	return config.Parse("command line", nil, config.Options{Overrides: append([]string{
		"mode=" + mode, "name=" + mode, setting("checkpoint_root_dir", dir),
		setting("model.model_path", f.path), "model.max_model_len=" + strconv.Itoa(f.length), "monitor.monitor_type=[jsonl]",
	}, settings...)})
}
