// Package cli is the command line: one file per command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/trinity-go/trinity/internal/safetext"
)

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	defer watchSignals()()
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimRight(line, "\n"); !strings.HasSuffix(line, errInterrupted.Error()) { // the user pressed Ctrl-C and knows
			fmt.Fprintf(stderr, "trinity: %s\n", safetext.Printable(safetext.Hidden(line)))
		}
	}
	if errors.Is(err, errInterrupted) {
		return interruptedCode
	}
	if cmd.Annotations[verdict] != "" && !errors.Is(err, errDisagree) {
		return undecidedCode
	}
	return 1
}

// New returns the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "trinity",
		Short: "Reinforcement fine-tuning of large language models",
		Long: "Trinity-Go trains language models by reinforcement learning. It reads Trinity-RFT's YAML\n" +
			"and runs on this machine's CPU without Python.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // RunE reports an unknown command

		Version: version(),

		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "trinity --help lists the commands"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("did you mean %q?", near[0])
			}
			return fmt.Errorf("unknown command %q: %s", args[0], hint)
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentPreRunE = wantRequired
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		runCommand(), sweepCommand(), checkCommand(), planCommand(), schemaCommand(), generateCommand(), chatCommand(), scoreCommand(),
		serveCommand(), serviceCommand(), keysCommand(), evalCommand(),
		clusterCommand(), verifyCommand(), pullCommand(), convertCommand(),
		initCommand(), templatesCommand(), dataCommand(), tasksCommand(), wheelCommand(),
		workerCommand(), listCommand(), explainCommand(), logCommand(), reportCommand(), compareCommand(), exportCommand(), viewCommand(),
		debugCommand(), replayCommand(), perfCommand(), topCommand(), syncCommand(),
		annotateCommand(), studioCommand(), doctorCommand(),
		versionCommand(),
	)
	return root
}

// wants describes the values of flags by type.
var wants = map[string]string{
	"duration": "a time such as 90s", "float64": "a number", "int": "a whole number", "int64": "a whole number",
	"uint64":  "a whole number, 0 or more",
	"float32": "a number", "uint16": "a port, 0 to 65535", "bool": "true or false",
	"uintSlice": "whole numbers with commas between them, such as 0,1,2",
}

// flagError rewords an error of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		return fmt.Errorf("--%s is %q: want %s", f.Name, value.GetValue(), wants[f.Value.Type()])
	}
	return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
}

// isTerminal reports whether a person types the input.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// wantArgs returns an error unless there are exactly n arguments.
func wantArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("got %d arguments, want %d: %s", len(args), n, usage(cmd))
		}
		return nil
	}
}

// usage returns how to call a command, also one of another command.
func usage(cmd *cobra.Command) string {
	return cmd.CommandPath() + strings.TrimPrefix(cmd.Use, cmd.Name())
}

// wantAtMost returns an error if there are more than n arguments.
func wantAtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("got %d arguments, want at most %d: trinity %s", len(args), n, cmd.Use)
		}
		return nil
	}
}

// wantRequired returns an error that names the first missing required flag.
func wantRequired(cmd *cobra.Command, _ []string) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required && f.Value.String() == "" && err == nil {
			err = fmt.Errorf("--%s is not given: trinity %s", f.Name, cmd.Use)
		}
	})
	return err
}
