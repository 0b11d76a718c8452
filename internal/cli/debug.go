package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/view"
)

// debugText is the file with what debug prints. A directory that has one is debug's own.
const debugText = "debug.txt"

// debugFlags are the flags of the command debug. Those of upstreamDebug are Trinity-RFT's.
type debugFlags struct {
	configFlags
	run.DebugOptions
	module string
	keep   bool
}

// upstreamDebug are flags of Trinity-RFT that change nothing here, and why.
var upstreamDebug = []struct{ name, why string }{
	{"enable-profiling", "every run of debug keeps its times: trinity perf DIR --chrome FILE writes them for Perfetto"},
	{"port", "the viewer prints to the terminal and listens on no port"},
}

func debugCommand() *cobra.Command {
	var flags debugFlags
	cmd := &cobra.Command{
		Use:   "debug (FILE | --config FILE) [key=value …]",
		Short: "Run one task's group of rollouts without training, and print every call, time and reason",
		Long: "Run the rollouts of one task through workflow, reward, operators and advantage, and train on nothing. The\n" +
			"command prints every call of a model, the times, the rewards and why something failed. It keeps this in\n" +
			"--output-dir, which trinity view and trinity perf read.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bridge.Allow(sayTo(cmd.ErrOrStderr()))
			for _, f := range upstreamDebug {
				if cmd.Flags().Changed(f.name) {
					fmt.Fprintf(cmd.ErrOrStderr(), "--%s changes nothing: %s\n", f.name, f.why)
				}
			}
			switch flags.module {
			case "workflow":
				return flags.run(cmd, args)
			case "inference_model":
				fmt.Fprintln(cmd.OutOrStdout(), "--module workflow loads the model itself, so there is nothing to keep running; "+
					"trinity serve --model PATH serves a model, and trinity chat talks to one")
				return nil
			case "viewer":
				page, err := view.Read(flags.Dir, view.Options{})
				if err != nil {
					return err
				}
				return paged(cmd.OutOrStdout(), func(w io.Writer, coloured bool) error { return page.Print(w, coloured, false) })
			}
			return fmt.Errorf("--module is %q: want workflow, inference_model or viewer", flags.module)
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.IntVar(&flags.Task, "task", 0, "row of the first training taskset, from 0 on")
	f.IntVar(&flags.Repeat, "repeat", 0, "rollouts of the task; 0: as configured (repeat_times)")
	f.StringVar(&flags.Stage, "stage", "", "stage of the configuration; if not given, the first that explores")
	f.StringVar(&flags.module, "module", "workflow", "workflow; viewer shows what --output-dir has; inference_model has nothing to do here")
	f.StringVar(&flags.Dir, "output-dir", "debug_output", "directory of what the command keeps")
	f.StringVar(&flags.Dir, "output-file", "debug_output", "older name of --output-dir")
	f.BoolVar(&flags.keep, "disable-overwrite", false, "write to a directory of the same name with the time, if --output-dir is there")
	for _, u := range upstreamDebug {
		f.String(u.name, "", "changes nothing: "+u.why)
	}
	f.Lookup("enable-profiling").NoOptDefVal = "true"
	return cmd
}

// run runs the group of one task and prints what became of it.
func (f *debugFlags) run(cmd *cobra.Command, args []string) error {
	if f.Repeat < 0 || f.Task < 0 {
		return errors.New("--task and --repeat take numbers from 0 on")
	}
	cfg, err := f.load(append(args, "monitor.monitor_type=[jsonl]", "monitor.monitor_args={}")) // no service hears of it
	if err != nil {
		return err
	}
	if err := f.place(); err != nil {
		return fmt.Errorf("--output-dir: %w", err)
	}
	ctx, cancel := interruptible(cmd.Context())
	defer cancel()
	f.Say = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	begin := time.Now()
	debugged, err := run.Debug(ctx, cfg, f.DebugOptions)
	if err != nil {
		return orInterrupted(ctx, err)
	}
	var out bytes.Buffer
	printDebugged(&out, debugged)
	fmt.Fprintf(&out, "\n%s in all, with loading the model\n", time.Since(begin).Round(time.Millisecond))
	if err := durable.WriteFile(filepath.Join(f.Dir, debugText), out.Bytes()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\nkept in %s: trinity view %[2]s --tokens, trinity perf %[2]s\n", out.Bytes(), f.Dir)
	return err
}

// place makes the directory of what the command keeps. It refuses one that something else wrote.
func (f *debugFlags) place() error {
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, notOwn := os.Stat(filepath.Join(f.Dir, debugText))
	switch {
	case len(entries) == 0:
	case f.keep:
		f.Dir += "_" + time.Now().Format("20060102150405")
	case notOwn != nil:
		return fmt.Errorf("%s is not empty, and debug has not written it: give another one, or --disable-overwrite", f.Dir)
	}
	if err := durable.MkdirAll(f.Dir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(f.Dir, debugText), nil) // the directory is debug's own, also if a rollout never begins
}
