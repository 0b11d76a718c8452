package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/rundir"
)

// write writes the configuration and the files beside it, and prints what comes next. before names what
// is written already.
func (b *beginning) write(cmd *cobra.Command, files map[string][]byte, before string) error {
	text, err := b.sized(cmd, files)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(b.File, text); err != nil {
		return err
	}
	return printNext(cmd, before+b.File, "run --config "+shellWord(b.File), "studio", "chat --model "+shellWord(b.checkpoint(text))+
		systemFlag(b.System))
}

// checkpoint returns where the run of the configuration puts the last checkpoint.
func (b *beginning) checkpoint(text []byte) string {
	path := []string{"checkpoints", "trinity", b.Name()}
	switch {
	case b.SFT():
		path = append(path, "warmup")
	case b.Script == "":
		path = append(path, "rl")
	}
	last := "N"
	if cfg, err := config.Parse(b.File, text, config.Options{}); err == nil {
		if plan, err := cfg.PlanStages(settle.Facts); err == nil {
			if n := plan.Stages[len(plan.Stages)-1].TrainSteps; n > 0 {
				last = fmt.Sprint(n)
			}
		}
	}
	return filepath.Join(append(path, rundir.StepPrefix+last)...)
}

// printNext prints which file was written, and the commands that come next.
func printNext(cmd *cobra.Command, wrote string, commands ...string) error {
	var out strings.Builder
	fmt.Fprintf(&out, "wrote %s; next:\n", wrote)
	for _, c := range commands {
		fmt.Fprintf(&out, "  %s %s\n", invocation(), c)
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), out.String())
	return err
}

// shellWord quotes a path for a shell if it needs that.
func shellWord(path string) string {
	if plainYAML.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
