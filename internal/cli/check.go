package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/settle"
)

func checkCommand() *cobra.Command {
	var flags configFlags
	var asJSON, all, noPython bool
	cmd := &cobra.Command{
		Use:   "check (FILE | --config FILE) [key=value …]",
		Short: "Check a configuration and print its plan (steps, memory, disk, time, files) without running it",
		Long: "Check a configuration without running it, and print what it sets other than the\n" +
			"defaults, and its plan: steps, memory, disk, files, and the time that a step and the run\n" +
			"take at the measured speed of this machine. --all prints every key with its value, the parts\n" +
			"of memory and time, and the files that the run writes. It imports the Python functions that\n" +
			"the configuration names, with your rights; --no-python leaves that out.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !noPython {
				bridge.Allow(sayTo(cmd.ErrOrStderr()))
			}
			cfg, err := flags.load(args)
			if files := bridge.Imported(); len(files) > 0 && !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "# imported, with your rights: %s\n", strings.Join(files, ", "))
			}
			if err != nil {
				return err
			}
			plan, err := cfg.PlanStages(settle.Facts)
			if err != nil {
				return err
			}
			if asJSON {
				return errors.Join(plan.Fits(), json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					Config *config.Config `json:"config"`
					Plan   *config.Plan   `json:"plan"`
				}{cfg, plan}))
			}
			text, err := cfg.Differences()
			if all {
				text, err = cfg.YAML()
			}
			if err != nil {
				return err
			}
			if !all {
				text = "# differs from the defaults\n" + text
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", text, wrap(plan.Text(all), columns(cmd.OutOrStdout()))); err != nil {
				return err
			}
			return plan.Fits()
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "print every key with its value, and every line of the plan")
	cmd.Flags().BoolVar(&noPython, "no-python", false, "do not import functions and classes of users")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the effective configuration and the plan as one JSON object")
	return cmd
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of configurations, for editors",
		Args:  wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := config.JSONSchema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(schema))
			return err
		},
	}
}
